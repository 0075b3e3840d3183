"""The plugin as a whole: its manifest, its words, and how it starts."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import penstock_metrics
from penstock_connector import Source
from penstock_connector._connectors import spec_of
from penstock_metrics import CONNECTORS

FOLDER = Path(penstock_metrics.__file__).parent
README = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
CODE = r"(?:metrics|prometheus|statsd|syslog|jmx|ganglia)\.[a-z_]+"


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
    assert f"[`{connector.name}`](#{connector.name})" in README
    assert spec_of(connector).enforces_reach


def test_every_code_of_an_error_is_in_the_readme():
    sources = "".join(file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.py"))
    codes = set(re.findall(rf'["\[]({CODE})["\]]', sources))
    keys = {key.name for connector in CONNECTORS for key in spec_of(connector).config_keys}
    known = {"prometheus.listener.url", "prometheus.scrape.url", "metrics.py"}
    told = set(re.findall(rf"`({CODE})`", README.split("## Errors")[1]))
    assert codes - keys - known == told


def test_started_by_hand_it_says_how_it_is_run():
    ended = subprocess.run(
        [sys.executable, "-m", "penstock_metrics"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "prometheus-source" in ended.stderr
