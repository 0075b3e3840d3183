"""The plugin as a whole: its manifest, its words, and how it starts."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import penstock_search
from penstock_connector import ConfigError
from penstock_search import CONNECTORS
from penstock_search.elasticsearch_sink import json_library

FOLDER = Path(penstock_search.__file__).parent


def test_the_manifest_names_what_is_served():
    manifest = tomllib.loads((FOLDER / "plugin.toml").read_text(encoding="utf-8"))
    listed = {c["name"]: (c["kind"], set(c.get("aliases", ()))) for c in manifest["connector"]}
    assert listed == {c.name: ("sink", set(c.aliases)) for c in CONNECTORS}
    assert all(c["title"] for c in manifest["connector"])


def test_every_code_of_an_error_is_in_a_readme():
    sources = "".join(file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.py"))
    told = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    code = r"elasticsearch\.[a-z_]+"
    assert set(re.findall(f'"({code})"', sources)) <= set(re.findall(code, told))


def test_started_by_hand_it_says_how_it_is_run():
    ended = subprocess.run(
        [sys.executable, "-m", "penstock_search"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "elasticsearch-sink" in ended.stderr


def test_without_its_library_it_says_what_to_install(monkeypatch):
    json_library._orjson.cache_clear()
    monkeypatch.setitem(sys.modules, "orjson", None)
    with pytest.raises(ConfigError) as caught:
        json_library.require_library()
    assert caught.value.fix == "pip install 'penstock[search]'"
    json_library._orjson.cache_clear()
