"""Every key of a connector that the framework reads is in the table that people read."""

import re

from penstock.connector_config.keys import KEYS
from support.checkout import ROOT

NAMES = {key.name for key in KEYS} - {"name", "connector.class"}
"""The two without which there is no connector are told where connectors are."""


def documented(text):
    """The keys of the table; `flush.interval`, `.rows` are flush.interval and flush.rows."""
    table = text.partition("## Framework keys of a connector")[2].partition("\n## ")[0]
    found = set()
    for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE):
        whole = ""
        for word in re.findall(r"`([^`]+)`", row):
            whole = whole.rpartition(".")[0] + word if word.startswith(".") else word
            found.add(whole)
    return found


README = (ROOT / "services" / "penstock" / "worker" / "README.md").read_text(encoding="utf-8")


def test_every_key_is_in_the_table_and_every_row_is_a_key():
    assert documented(README) == NAMES


def test_a_key_without_a_row_goes_red():
    rows = README.replace("| `placement` |", "| `place` |")
    assert documented(rows) ^ NAMES == {"placement", "place"}
