"""Letters by name, and changes of their rows."""

import json

import pytest

from penstock.model.errors import ConfigError
from penstock.model.replay import LetterId, changed, read_changes, read_ids, written_ids
from penstock.model.sensitive import shown
from penstock.worker.config.settings import read_settings


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("0/3", [LetterId(0, 3)]),
        (" 0/4 ,0/3-4,1/0", [LetterId(0, 3), LetterId(0, 4), LetterId(1, 0)]),
    ],
)
def test_letters_are_read_in_order_and_each_once(text, found):
    assert read_ids(text) == found
    assert read_ids(written_ids(found)) == found


def test_neighbours_are_written_as_one():
    assert written_ids([LetterId(0, n) for n in (1, 2, 3, 7)] + [LetterId(1, 8)]) == "0/1-3,0/7,1/8"


@pytest.mark.parametrize("text", ["3", "0/x", "0/-1", "0/1-", "a/1", "0/1;0/2", "0/1/2"])
def test_what_names_no_letter_is_refused(text):
    with pytest.raises(ConfigError, match=r"letters\.no_id"):
        read_ids(text)


@pytest.mark.parametrize("text", ["0/0-10000", "0/0-999999999999999", "0/0-6000,1/0-6000"])
def test_too_many_are_refused_before_they_are_counted(text):
    with pytest.raises(ConfigError, match=r"letters\.too_many"):
        read_ids(text)


def test_a_change_of_one_row_counts_more_than_one_of_all():
    changes = read_changes('{"a": 1, "b": 2}', {"0/7": '{"b": null}'})
    assert changed('{"a":0,"b":0,"c":0}', changes.of(LetterId(0, 7))) == '{"a":1,"c":0}'
    assert changed('{"a":0}', changes.of(LetterId(0, 8))) == '{"a":1,"b":2}'
    row = '{"big": 12345678901234567890.10}'
    assert changed(row, {}) == row, "a row that is not changed is the same text"


@pytest.mark.parametrize("text", ["[]", "1", "{", '"a"'])
def test_a_change_is_an_object(text):
    with pytest.raises(ConfigError, match=r"letters\.bad_edit"):
        read_changes(text, {})


def test_the_keys_of_a_replay():
    edits = json.dumps({"0/3": {"a": 2}})
    keys = {"replay.of": "orders", "replay.letters": "0/3", "replay.edits": edits}
    settings, findings = read_settings({"name": "orders.replay", **keys})
    assert findings == []
    replay = settings.replay
    assert replay is not None
    assert replay.changes.of(LetterId(0, 3)) == {"a": 2}
    assert [one.bounded for one in replay.plan("dead").partitions] == [True]
    assert read_settings({"name": "orders"})[0].replay is None
    for key, code in (("replay.letters", "letters.no_id"), ("replay.set", "letters.bad_edit")):
        _, findings = read_settings({"name": "r", "replay.of": "orders", key: "x"})
        assert [one.code for one in findings] == [code]


def test_changes_are_not_shown():
    assert shown("replay.set", '{"a": 1}') == shown("replay.edits", "{}") == "***"
    assert shown("replay.letters", "0/3") == "0/3"
