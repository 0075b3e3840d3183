"""Debezium's signals: what is obeyed, and what is told to be not."""

import pytest

from penstock_connector import ConfigError
from penstock_databases.cdc.signals import LOG, SNAPSHOT, STOP, read_signal


def signal(kind, data):
    return read_signal({"id": "7", "type": kind, "data": data})


def test_tables_are_named_by_patterns():
    found = signal("execute-snapshot", '{"data-collections": ["shop.orders", "crm[.].*"]}')
    assert found.type == SNAPSHOT
    tables = ("shop.orders", "crm.a", "shop.orders2", "other.crm.a")
    assert [found.means(table) for table in tables] == [True, True, False, False]


def test_a_snapshot_of_nothing_reads_nothing_and_a_stop_without_names_ends_all():
    assert not signal("execute-snapshot", "{}").means("shop.orders")
    assert signal("stop-snapshot", "").means("shop.orders")
    stop = signal("stop-snapshot", '{"data-collections": ["shop.orders"]}')
    assert (stop.type, stop.means("shop.orders"), stop.means("shop.x")) == (STOP, True, False)


def test_a_message_is_logged():
    found = signal("log", '{"message": "the copy begins"}')
    assert (found.type, found.message) == (LOG, "the copy begins")
    forged = signal("log", '{"message": "a\\n2026-01-01 ERROR b"}')
    assert forged.message == "a 2026-01-01 ERROR b"


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        ("dance", "{}", "'dance' is not supported"),
        ("pause-snapshot", "{}", "Pause the connector"),
        ("", None, "The types are"),
        ("execute-snapshot", "shop.orders", "not a JSON object"),
        ("execute-snapshot", "[]", "not a JSON object"),
        ("execute-snapshot", '{"data-collections": "shop.orders"}', "not a list of names"),
        ("execute-snapshot", '{"data-collections": [7]}', "not a list of names"),
        (
            "execute-snapshot",
            '{"data-collections": ["a.b"], "additional-conditions": [{"filter": "x"}]}',
            "`additional-conditions` is not in force",
        ),
    ],
)
def test_a_signal_that_cannot_be_obeyed_says_so(kind, data, why):
    with pytest.raises(ConfigError) as caught:
        signal(kind, data)
    assert caught.value.code == "cdc.signal"
    assert "'7'" in str(caught.value)
    assert why in f"{caught.value} {caught.value.fix}"


def test_a_pattern_that_is_none_says_so():
    with pytest.raises(ConfigError, match=r"config\.bad_pattern"):
        signal("execute-snapshot", '{"data-collections": ["a("]}')
