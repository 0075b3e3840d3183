"""The rules that need no server: messages, offsets, visibility, values."""

import contextlib
import json
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_connector import ConfigError, ConnectorError, DataError
from penstock_databases.cdc.progress import Window, Work
from penstock_databases.postgres_cdc import offsets, pgoutput, progress
from penstock_databases.postgres_cdc.changes import Changes, Limits
from penstock_databases.postgres_cdc.offsets import Position
from penstock_databases.postgres_cdc.pgoutput import UNSENT
from penstock_databases.postgres_cdc.progress import Moment, Seen, TableProgress
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
    changes = Changes(None, Position(1), TableProgress(), Limits(10, 10))
    changes._begin = pgoutput.Begin(1, 1, 1)
    if data[:1] not in {b"R", b"M"}:
        with contextlib.suppress(ConnectorError):
            changes.take(data)


# ── offsets ──────────────────────────────────────────────────────────────────────────────────────

KEYS = st.none() | st.lists(st.text(max_size=5), min_size=1, max_size=3).map(tuple)
SEEN = st.builds(Seen, NUMBERS, NUMBERS, st.frozensets(NUMBERS, max_size=4))
MOMENTS = st.builds(Moment, SEEN, NUMBERS)
WINDOWS = st.builds(Window, NUMBERS, KEYS, KEYS, MOMENTS, st.booleans())


CONDITIONS = st.sampled_from(["", "id > 7"])


@st.composite
def snapshots(draw):
    """Tables that are not begun, or are by their keys, or have no key and so an open window."""
    kept = st.dictionaries(NUMBERS, st.booleans(), max_size=4)
    done = TableProgress(windows=draw(st.lists(WINDOWS, max_size=3)))
    done.pending = draw(st.sets(XIDS, max_size=3))
    for table, keep in draw(kept).items():
        last = draw(KEYS)
        columns = ("a",) if last else ()
        condition = draw(CONDITIONS)
        done.work[table] = Work(table, last, True, keep, columns, condition)
        if last is None:
            done.windows.append(Window(table, None, None, draw(MOMENTS), exact=not keep))
    named = {*done.work, *(window.table for window in done.windows)}
    for table, keep in draw(kept).items():
        if table not in named:
            done.add([table], keep=keep, condition=draw(CONDITIONS))
    done.paused = bool(done.work) and draw(st.booleans())
    return done


@given(
    st.builds(Position, NUMBERS, NUMBERS, NUMBERS, st.sampled_from([(), (("a", 1), ("b", 7))])),
    st.frozensets(NUMBERS, max_size=5),
    snapshots(),
)
def test_an_offset_says_all_of_a_place(position, tables, snapshot):
    offset = json.loads(json.dumps(offsets.to_offset(position, tables, snapshot)))
    assert offsets.position_of(offset) == position
    assert offsets.tables_of(offset) == tables
    if snapshot.running:
        found = offsets.progress_of(offset)
        assert found == snapshot
        assert list(found.work) == sorted(snapshot.work, key=lambda t: not snapshot.work[t].begun)


def test_an_offset_of_a_snapshot_with_one_table_is_as_it_always_was():
    stored = {
        "todo": [[16384, False], [16385, True]],
        "work": [16390, False, ["id"], ["41"]],
        "windows": [[16390, None, ["41"], "735:737:736", "0/16B3748", False]],
        "pending": [736],
    }
    found = offsets.progress_of({"snapshot": stored})
    assert found.work[16390] == Work(16390, ("41",), begun=True, columns=("id",))
    assert list(found.work) == [16390, 16384, 16385]
    assert offsets.to_offset(Position(1), (), found)["snapshot"] == stored


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

ORDER = progress.order_of([row_field("id", "bigint")])
M = Moment(Seen(100, 110, frozenset({105})), 5)


def snapshot(*windows, **work):
    """A snapshot of table 1, with what is left of it."""
    return TableProgress({1: Work(1, **work)} if work else {}, list(windows))


def half_read(**more):
    return {"begun": True, "last": ("10",), "columns": ("id",), **more}


def rule(snapshot, xid=101, key=("id",), order=ORDER):
    return progress.rule_for(snapshot, 1, xid, key, order)


def test_a_table_that_is_not_read_has_no_rule():
    assert rule(TableProgress({2: Work(2)})) is None


def test_what_is_read_later_is_left_out():
    assert rule(snapshot(begun=False)).leaves((5,))
    half = rule(snapshot(**half_read()))
    assert (half.leaves((10,)), half.leaves((11,))) == (False, True)
    assert half.waits


def test_what_was_read_after_it_is_left_out():
    plan = snapshot(Window(1, ("10",), ("20",), M))
    assert [rule(plan).leaves((key,)) for key in (10, 11, 20, 21)] == [False, True, True, False]
    for unseen in (105, 110):
        assert not rule(plan, xid=unseen).leaves((11,))


def test_where_the_order_is_not_known_or_rows_came_before_nothing_is_left_out():
    text = progress.order_of([row_field("id", "text")])
    assert text is None
    for plan in (snapshot(begun=False), snapshot(Window(1, None, ("a",), M))):
        assert rule(plan, order=text).upserts
    for plan in (
        snapshot(keep=True),
        snapshot(**half_read(keep=True)),
        snapshot(Window(1, None, None, M, exact=False)),
        snapshot(**half_read(columns=("other",))),
    ):
        assert rule(plan).upserts


def test_a_table_without_key_is_left_out_by_what_was_seen():
    plan = snapshot(Window(1, None, None, M), begun=True)
    assert rule(plan, key=(), order=None).leaves(())
    assert not rule(plan, xid=105, key=(), order=None).leaves(())
    plan.passed(9)
    assert plan.windows  # it is still read
    plan.work.clear()
    plan.passed(9)
    assert not plan.windows


def test_behind_a_truncate_all_is_in_the_log():
    for plan, told in (
        (snapshot(begun=False), False),
        (snapshot(keep=True), True),
        (snapshot(Window(1, None, ("10",), M), **half_read()), True),
        (snapshot(Window(1, None, ("10",), M)), True),
        (snapshot(), True),
    ):
        assert plan.truncated(1) == told
        assert plan == TableProgress()


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
