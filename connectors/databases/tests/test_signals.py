"""Debezium's signals: what is obeyed, and what is told to be not."""

import pytest

from penstock_connector import ConfigError, Op
from penstock_databases.cdc.progress import Progress, Window, Work
from penstock_databases.cdc.signals import (
    LOG,
    PAUSE,
    RESUME,
    SNAPSHOT,
    STOP,
    is_condition,
    new_signals,
    obey_signal,
    read_signal,
)


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
        ("set-binlog-position", "{}", "penstock offsets set"),
        ("execute-snapshot", '{"type": "quick"}', "incremental or blocking"),
        ("execute-snapshot", '{"surrogate-key": "a"}', "`surrogate-key` is not in force"),
        ("", None, "The types are"),
        ("execute-snapshot", "shop.orders", "not a JSON object"),
        ("execute-snapshot", "[]", "not a JSON object"),
        ("execute-snapshot", '{"data-collections": "shop.orders"}', "not a list of names"),
        ("execute-snapshot", '{"data-collections": [7]}', "not a list of names"),
        (
            "execute-snapshot",
            '{"data-collections": ["a.b"], "additional-conditions": [{"filter": "x"}]}',
            "a condition has another form",
        ),
        (
            "execute-snapshot",
            '{"additional-conditions": [{"data-collection": "a.b", "filter": "1) OR (1"}]}',
            "balanced parentheses",
        ),
        ("execute-snapshot", '{"additional-conditions": "id > 7"}', "has another form"),
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


def test_a_condition_is_of_the_tables_that_it_names_and_an_old_one_of_all():
    found = signal(
        "execute-snapshot",
        '{"data-collections": ["a.*"], "type": "BLOCKING", "additional-conditions": '
        '[{"data-collection": "a.b", "filter": " color = \'blue\' "}]}',
    )
    assert [found.condition_of(table) for table in ("a.b", "a.c")] == ["color = 'blue'", ""]
    old = signal("execute-snapshot", '{"additional-condition": "id > 7"}')
    assert old.condition_of("a.c") == "id > 7"


@pytest.mark.parametrize(
    "text",
    ["id > 7", "a IN (1, 2) AND (b = 'it''s (' OR \"c)\" IS NULL)", "`d)` LIKE '%x--%'",
     "id IN (SELECT id FROM t)", "x = '#'"],
)  # fmt: skip
def test_one_condition_is_taken(text):
    assert is_condition(text)


@pytest.mark.parametrize(
    "text",
    ["1=1); DROP TABLE t; --", "1=1) UNION SELECT * FROM s WHERE (1=1", "id > 7 -- (", "a /* b",
     "a # b", "a = 'x", "a = '\\' OR b = '", "a = $$)$$", "a = ')' )", "(a", "a = 'b;c'"],
)  # fmt: skip
def test_what_could_end_the_statement_is_no_condition(text):
    assert not is_condition(text)


class Place:
    number = 1


class Reading:
    """A snapshot of tables by their numbers."""

    def __init__(self):
        self.progress = Progress()
        self.tables = {1: "a.b", 2: "a.c", 3: "x.y"}

    def obey(self, kind, data="{}"):
        def add(table, condition):
            self.progress.add([table], keep=True, condition=condition)

        return obey_signal(signal(kind, data), self.progress, self.tables, add)


def test_tables_are_read_with_their_conditions_and_stopped():
    reading = Reading()
    reading.obey(
        SNAPSHOT,
        '{"data-collections": ["a.*"], "additional-conditions": '
        '[{"data-collection": "a.c", "filter": "id > 7"}]}',
    )
    work = reading.progress.work
    assert {table: one.condition for table, one in work.items()} == {1: "", 2: "id > 7"}
    assert all(one.keep for one in work.values())
    assert reading.obey(STOP, '{"data-collections": ["a.b", "x.y"]}').endswith(": a.b")
    assert list(work) == [2]


def of_one(condition):
    one = f'{{"data-collection": "a.b", "filter": "{condition}"}}'
    conditions = f', "additional-conditions": [{one}]' if condition else ""
    return f'{{"data-collections": ["a.b"]{conditions}}}'


@pytest.mark.parametrize(
    ("conditions", "reads"),
    [
        (["", "id < 7"], ""),
        (["id < 7", ""], ""),
        (["id < 7", "id > 9"], "(id < 7) OR (id > 9)"),
        (["id < 7", "id > 9", "n = 1"], "((id < 7) OR (id > 9)) OR (n = 1)"),
        (["id < 7", "id < 7"], "id < 7"),
    ],
)
def test_what_is_asked_for_while_a_table_is_read_is_read_too(conditions, reads):
    """From the beginning: what was given of it is not what the other signal asked for."""
    reading = Reading()
    for condition in conditions:
        reading.obey(SNAPSHOT, of_one(condition))
        if condition != conditions[-1]:
            reading.progress.given(Window(1, None, (5,), Place()), done=False)
    assert reading.progress.work == {1: Work(1, keep=True, condition=reads)}


def test_a_condition_leaves_a_first_reading_whole():
    reading = Reading()
    reading.progress.add([1, 2])
    reading.obey(SNAPSHOT, of_one("id < 7"))
    assert reading.progress.work == {1: Work(1, keep=True), 2: Work(2)}
    assert reading.progress.reads_all(1)
    reading.progress.add([2], condition="id < 7")
    assert not reading.progress.work[2].condition
    reading.progress.add([3], keep=True, condition="id < 7")
    assert not reading.progress.reads_all(3)
    reading.progress.add([3])
    assert reading.progress.work[3] == Work(3, keep=True)


def test_a_pause_lasts_until_it_is_taken_back_or_nothing_is_left():
    reading = Reading()
    assert "no table" in reading.obey(PAUSE)
    assert not reading.progress.paused
    reading.obey(SNAPSHOT, '{"data-collections": ["a.b"]}')
    reading.obey(PAUSE)
    assert reading.progress.paused
    reading.obey(SNAPSHOT, '{"data-collections": ["a.c"]}')
    assert reading.progress.paused, "a table that is added waits, too"
    reading.obey(RESUME)
    assert not reading.progress.paused
    reading.obey(PAUSE)
    reading.obey(STOP)
    reading.obey(SNAPSHOT, '{"data-collections": ["a.c"]}')
    assert not reading.progress.paused


def test_only_new_rows_are_signals_and_one_that_is_wrong_leaves_the_others():
    rows = [
        {"id": str(n), "type": kind, "data": None, "__op": op}
        for n, (kind, op) in enumerate(
            [("log", Op.SNAPSHOT), ("dance", Op.CREATE), ("log", Op.UPSERT), ("log", Op.DELETE)]
        )
    ]
    wrong, right = new_signals(rows)
    assert isinstance(wrong, ConfigError)
    assert right.type == LOG
