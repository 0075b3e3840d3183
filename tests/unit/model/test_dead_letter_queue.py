"""Ids of dead letters, and edits of their rows."""

import json

import pytest

from penstock.connector_config.settings import read_settings
from penstock.model.config_redaction import redact_value
from penstock.model.dead_letter_queue import (
    DeadLetterId,
    format_ids,
    parse_edits,
    parse_ids,
)
from penstock.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("0/3", [DeadLetterId(0, 3)]),
        (" 0/4 ,0/3-4,1/0", [DeadLetterId(0, 3), DeadLetterId(0, 4), DeadLetterId(1, 0)]),
    ],
)
def test_ids_are_parsed_in_order_and_without_duplicates(text, found):
    assert parse_ids(text) == found
    assert parse_ids(format_ids(found)) == found


def test_consecutive_ids_are_formatted_as_a_range():
    assert (
        format_ids([DeadLetterId(0, n) for n in (1, 2, 3, 7)] + [DeadLetterId(1, 8)])
        == "0/1-3,0/7,1/8"
    )


@pytest.mark.parametrize("text", ["3", "0/x", "0/-1", "0/1-", "a/1", "0/1;0/2", "0/1/2"])
def test_an_invalid_id_is_refused(text):
    with pytest.raises(ConfigError, match=r"letters\.no_id"):
        parse_ids(text)


@pytest.mark.parametrize("text", ["0/0-10000", "0/0-999999999999999", "0/0-6000,1/0-6000"])
def test_too_many_ids_are_refused_before_they_are_expanded(text):
    with pytest.raises(ConfigError, match=r"letters\.too_many"):
        parse_ids(text)


def test_an_edit_of_one_row_overrides_an_edit_of_all_rows():
    edits = parse_edits('{"a": 1, "b": 2}', {"0/7": '{"b": null}'})
    assert edits.for_letter(DeadLetterId(0, 7)) == {"a": 1, "b": None}
    assert edits.for_letter(DeadLetterId(0, 8)) == {"a": 1, "b": 2}


def test_an_edit_may_be_the_whole_text_of_one_row():
    edits = parse_edits('{"a": 1}', {"0/7": '"3,Ada\\n"'})
    assert edits.text_for(DeadLetterId(0, 7)) == "3,Ada\n"
    assert edits.for_letter(DeadLetterId(0, 7)) == {"a": 1}
    assert edits.text_for(DeadLetterId(0, 8)) is None
    with pytest.raises(ConfigError, match=r"letters\.bad_edit"):
        parse_edits("", {"0/7": '"3,Ada'})


@pytest.mark.parametrize("text", ["[]", "1", "{", '"a"'])
def test_an_edit_that_is_not_an_object_is_refused(text):
    with pytest.raises(ConfigError, match=r"letters\.bad_edit"):
        parse_edits(text, {})


def test_the_keys_of_a_replay():
    edits = json.dumps({"0/3": {"a": 2}})
    keys = {"replay.of": "orders", "replay.letters": "0/3", "replay.edits": edits}
    settings, findings = read_settings({"name": "orders.replay", **keys})
    assert findings == []
    replay = settings.replay
    assert replay is not None
    assert replay.edits.for_letter(DeadLetterId(0, 3)) == {"a": 2}
    assert [one.bounded for one in replay.plan("dead").partitions] == [True]
    assert read_settings({"name": "orders"})[0].replay is None
    for key, code in (("replay.letters", "letters.no_id"), ("replay.set", "letters.bad_edit")):
        _, findings = read_settings({"name": "r", "replay.of": "orders", key: "x"})
        assert [one.code for one in findings] == [code]


def test_edits_are_redacted():
    assert redact_value("replay.set", '{"a": 1}') == redact_value("replay.edits", "{}") == "***"
    assert redact_value("replay.letters", "0/3") == "0/3"
