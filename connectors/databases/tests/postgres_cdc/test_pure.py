"""The rules that need no server: messages, offsets, visibility, values."""

import contextlib
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_connector import ConfigError, ConnectorError, DataError
from penstock_databases.postgres_cdc import offsets, pgoutput, rules
from penstock_databases.postgres_cdc.changes import Changes, Limits
from penstock_databases.postgres_cdc.offsets import Plan, Position, Window, Work
from penstock_databases.postgres_cdc.pgoutput import UNSENT
from penstock_databases.postgres_cdc.visibility import Seen
from penstock_databases.postgresql.types import row_field
from penstock_databases.postgresql.values import array_items, days, typed

XIDS = st.integers(0, (1 << 32) - 1)
NUMBERS = st.integers(1, (1 << 63) - 1)


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def tuple_of(values):
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNSENT:
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack(">I", len(value)) + value)
    return b"".join(parts)


VALUES = st.lists(st.one_of(st.none(), st.just(UNSENT), st.binary(max_size=20)), max_size=6)


@given(st.sampled_from("IUD"), VALUES, st.sampled_from(["", "K", "O"]), VALUES)
def test_rows_are_read_as_they_were_written(kind, new, old_kind, old):
    if kind == "I":
        old_kind = ""
    if kind == "D":
        old_kind = old_kind or "K"
    data = kind.encode() + struct.pack(">I", 7)
    data += old_kind.encode() + tuple_of(old) if old_kind else b""
    data += b"" if kind == "D" else b"N" + tuple_of(new)
    change = pgoutput.read_change(data)
    assert pgoutput.relation_of(data) == 7
    assert change.new == (None if kind == "D" else new)
    assert change.old == (old if old_kind else None)
    assert change.whole == (old_kind == "O")
    assert change.unsent == (kind != "D" and UNSENT in new)


@given(st.binary(min_size=1, max_size=60))
def test_what_is_no_message_is_a_clear_error(data):
    changes = Changes(None, Position(1), Plan(), Limits(10, 10))
    changes._begin = pgoutput.Begin(1, 1, 1)
    if data[:1] not in {b"R", b"M"}:
        with contextlib.suppress(ConnectorError):
            changes.take(data)


# ── offsets ──────────────────────────────────────────────────────────────────────────────────────

KEYS = st.none() | st.lists(st.text(max_size=5), min_size=1, max_size=3).map(tuple)
SEEN = st.builds(Seen, NUMBERS, NUMBERS, st.frozensets(NUMBERS, max_size=4))
WINDOWS = st.builds(Window, NUMBERS, KEYS, KEYS, SEEN, NUMBERS, st.booleans())
PLANS = st.builds(
    Plan,
    st.dictionaries(NUMBERS, st.booleans(), max_size=4),
    st.none() | st.builds(Work, NUMBERS, st.booleans(), KEYS.map(lambda k: k or ()), KEYS),
    st.lists(WINDOWS, max_size=3),
    st.sets(XIDS, max_size=3),
)


@given(st.builds(Position, NUMBERS, NUMBERS, NUMBERS), st.frozensets(NUMBERS, max_size=5), PLANS)
def test_an_offset_says_all_of_a_place(position, tables, plan):
    offset = offsets.to_offset(position, tables, plan)
    assert offsets.position_of(offset) == position
    assert offsets.tables_of(offset) == tables
    if plan:
        assert offsets.plan_of(offset) == plan


def test_a_place_that_is_none():
    assert offsets.lsn_of("16/B374D848") == 0x16_B374D848
    assert offsets.lsn_text(0x16_B374D848) == "16/B374D848"
    for wrong in ("", "x/y", None, "1/2/3"):
        with pytest.raises(ConfigError):
            offsets.lsn_of(wrong)


# ── what a snapshot sees ─────────────────────────────────────────────────────────────────────────


@given(st.integers(3, 1 << 40), st.integers(0, 1000), st.data())
def test_a_transaction_is_seen_by_its_short_number(below, width, data):
    until = below + width
    inside = st.integers(below, until)
    running = data.draw(st.frozensets(inside, max_size=5))
    seen = Seen.of(str(Seen(below, until, running)))
    xid = data.draw(st.integers(max(below - 1000, 3), until + 1000))
    expected = xid < below or (xid < until and xid not in running)
    assert seen.has(xid % (1 << 32)) == expected


# ── rules ────────────────────────────────────────────────────────────────────────────────────────

ORDER = rules.order_of([row_field("id", "bigint")])
M = Seen(100, 110, frozenset({105}))


def rule(plan, xid=101, key=("id",), order=ORDER):
    return rules.rule_for(plan, 1, xid, key, order)


def test_a_table_that_is_not_in_the_plan_has_no_rule():
    assert rule(Plan(todo={2: False})) is None


def test_what_is_read_later_is_left_out():
    assert rule(Plan(todo={1: False})).leaves((5,))
    assert rule(Plan(work=Work(1))).leaves((5,))
    half = rule(Plan(work=Work(1, key=("id",), last=("10",))))
    assert (half.leaves((10,)), half.leaves((11,))) == (False, True)
    assert half.waits


def test_what_was_read_after_it_is_left_out():
    plan = Plan(windows=[Window(1, ("10",), ("20",), M, 5)])
    assert [rule(plan).leaves((key,)) for key in (10, 11, 20, 21)] == [False, True, True, False]
    for unseen in (105, 110):
        assert not rule(plan, xid=unseen).leaves((11,))


def test_where_the_order_is_not_known_or_rows_came_before_nothing_is_left_out():
    text = rules.order_of([row_field("id", "text")])
    assert text is None
    for plan in (Plan(todo={1: False}), Plan(windows=[Window(1, None, ("a",), M, 5)])):
        assert rule(plan, order=text).upserts
    for plan in (
        Plan(todo={1: True}),
        Plan(work=Work(1, again=True)),
        Plan(windows=[Window(1, None, None, M, 5, again=True)]),
    ):
        assert rule(plan).upserts


def test_a_table_without_key_is_left_out_by_what_was_seen():
    plan = Plan(work=Work(1), windows=[Window(1, None, None, M, 5)])
    assert rule(plan, key=(), order=None).leaves(())
    assert not rule(plan, xid=105, key=(), order=None).leaves(())
    rules.close_windows(plan, 9)
    assert plan.windows  # it is still read
    plan.work = None
    rules.close_windows(plan, 9)
    assert not plan.windows


def test_behind_a_truncate_all_is_in_the_log():
    for plan, told in (
        (Plan(todo={1: False}), False),
        (Plan(todo={1: True}), True),
        (
            Plan(work=Work(1, key=("id",), last=("5",)), windows=[Window(1, None, ("5",), M, 5)]),
            True,
        ),
        (Plan(windows=[Window(1, None, ("5",), M, 5)]), True),
        (Plan(), True),
    ):
        assert rules.truncated(plan, 1) == told
        assert plan == Plan()


# ── values ───────────────────────────────────────────────────────────────────────────────────────


@given(st.dates())
def test_days_are_those_of_the_calendar(date):
    assert days(date.isoformat()) == date.toordinal() - 719163


def test_dates_outside_of_four_digits():
    field = row_field("d", "date")
    texts = pa.array(["0044-03-15 BC", "12345-01-01", None, "2000-02-29"])
    assert typed(texts, field, "t").cast(pa.int32()).to_pylist() == [-735160, 3789391, None, 11016]


ITEMS = st.lists(
    st.none() | st.text(st.characters(exclude_characters="\0"), max_size=8), max_size=5
)


@given(ITEMS)
def test_arrays_are_read_as_they_were_written(items):
    def quoted(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = "{" + ",".join("NULL" if item is None else quoted(item) for item in items) + "}"
    assert array_items(text) == items


@pytest.mark.parametrize(
    ("native", "text"),
    [
        ("numeric(5,2)", "NaN"),
        ("integer[]", "{{1},{2}}"),
        ("integer", "4294967296"),
        ("bytea", "\\xzz"),
        ("date", "tomorrow"),
        ("timestamp without time zone", "now"),
    ],
)
def test_a_value_that_does_not_fit_is_not_shown(native, text):
    with pytest.raises(DataError) as caught:
        typed(pa.array([text]), row_field("c", native), "s.t")
    assert caught.value.code == "sql.value"
    assert text not in str(caught.value).replace("NaN is", "")


def test_the_number_of_a_reference_system_is_no_part_of_wkb():
    field = row_field("g", "geometry(Point,4326)")
    ewkb = "0101000020E6100000000000000000F03F0000000000000040"
    wkb = bytes.fromhex("0101000000000000000000F03F0000000000000040")
    assert typed(pa.array([ewkb, None, wkb.hex()]), field, "t").to_pylist() == [wkb, None, wkb]
