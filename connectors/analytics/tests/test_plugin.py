"""The plugin as a whole: its manifest, its words, and how it starts."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import penstock_analytics
from penstock_analytics import CONNECTORS
from penstock_analytics.clickhouse_sink import failing
from penstock_connector import Source

FOLDER = Path(penstock_analytics.__file__).parent


def test_the_manifest_names_what_is_served():
    manifest = tomllib.loads((FOLDER / "plugin.toml").read_text(encoding="utf-8"))
    listed = {c["name"]: (c["kind"], set(c.get("aliases", ()))) for c in manifest["connector"]}
    served = {
        c.name: ("source" if issubclass(c, Source) else "sink", set(c.aliases)) for c in CONNECTORS
    }
    assert listed == served
    assert all(c["title"] for c in manifest["connector"])


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda c: c.name)
def test_the_overview_leads_to_every_connector(connector):
    overview = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert f"[`{connector.name}`](penstock_analytics/" in overview


def test_every_code_of_an_error_is_in_a_readme():
    sources = "".join(file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.py"))
    told = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    kinds = {f"clickhouse.{kind}" for kind in failing._KINDS}
    assert kinds <= set(re.findall(r"clickhouse\.[a-z_]+", told))
    assert set(re.findall(r'"(clickhouse\.[a-z_]+)"', sources)) <= set(
        re.findall(r"clickhouse\.[a-z_]+", told)
    )


def test_started_by_hand_it_says_how_it_is_run():
    ended = subprocess.run(
        [sys.executable, "-m", "penstock_analytics"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "clickhouse-sink" in ended.stderr
