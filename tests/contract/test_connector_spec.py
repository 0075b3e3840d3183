"""The connector specification and the kit say the same: each case has a sentence, and a check."""

import re

import pytest

from penstock_kit.conformance import load_spec
from penstock_kit.conformance.checks import CHECKS
from penstock_kit.conformance.declaration import ConnectorDeclaration
from support.checkout import ROOT

SPEC = (ROOT / "connectors" / "README.md").read_text(encoding="utf-8")
KIT = (ROOT / "connectors/kit/penstock_kit/conformance/README.md").read_text(encoding="utf-8")
RULES = (ROOT / "proto" / "README.md").read_text(encoding="utf-8")
LEVELS = {case.id: case.level for case in load_spec().cases}


def named(text):
    """The cases that a text names, each with the last MUST or SHOULD before it."""
    found = {}
    for line in text.splitlines():
        level = ""
        for word in re.finditer(r"\b(MUST|SHOULD)\b|\[([a-z]+\.[a-z_]+)\](?!\()", line):
            level = word[1] or level
            if word[2]:
                found[word[2]] = level
    return found


def test_every_case_has_a_sentence_of_its_level_and_no_name_is_wrong():
    assert named(SPEC) == LEVELS


@pytest.mark.parametrize(
    ("before", "after"),
    [("[read.rows]", "[read.row]"), (" [start.once]", ""), ("SIGTERM SHOULD", "SIGTERM MUST")],
)
def test_a_wrong_missing_or_stronger_sentence_goes_red(before, after):
    assert before in SPEC
    assert named(SPEC.replace(before, after)) != LEVELS


def test_every_case_is_run_by_one_function_and_every_function_is_a_case():
    assert sorted(CHECKS) == sorted(LEVELS)


def test_cases_are_well_formed():
    for case in load_spec().cases:
        assert case.level in {"MUST", "SHOULD"}, case
        assert case.kind in {"plugin", "connector", "source", "sink"}, case
        assert case.shows, case
        assert case.rules, case


def test_every_rule_that_a_plugin_can_break_has_a_case():
    """R14 wants an outside that lost its offset, R21 one that does not take a row; R20 is about
    meaning; R6 is the host's.
    """
    rules = set(re.findall(r"^\| (R\d+) \|", RULES, re.MULTILINE))
    tested = {rule for case in load_spec().cases for rule in case.rules if rule in rules}
    assert rules - tested == {"R6", "R14", "R20", "R21"}


def test_the_version_in_the_text_is_that_of_the_cases():
    assert f"Version {load_spec().version}." in SPEC


def test_the_keys_that_are_documented_are_the_keys_that_there_are():
    table = KIT.partition("| key | of | |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", table, re.MULTILINE)
    assert {key for row in rows for key in re.findall(r"\w+", row)} == set(
        ConnectorDeclaration.__dataclass_fields__
    )
