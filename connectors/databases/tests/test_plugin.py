"""The plugin as a whole: its manifest, its words, and how it starts."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import penstock_databases
from penstock_connector import Source
from penstock_databases import CONNECTORS

FOLDER = Path(penstock_databases.__file__).parent


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
    assert f"[`{connector.name}`](penstock_databases/" in overview


def test_started_by_hand_it_says_how_it_is_run():
    ended = subprocess.run(
        [sys.executable, "-m", "penstock_databases"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "jdbc-source" in ended.stderr
