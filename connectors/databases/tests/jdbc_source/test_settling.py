"""Nothing is lost and nothing is read twice, whatever the order in which rows become visible."""

from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_connector import ConfigError
from penstock_databases.jdbc_source import gaps
from penstock_databases.jdbc_source.modes import Where, after, within
from penstock_databases.jdbc_source.places import (
    Place,
    check_mode,
    place_of,
    place_offset,
    time_text,
)
from penstock_databases.jdbc_source.window import Window


def test_a_place_among_equals_is_exact():
    where = after(["a", "b", "c"], [1, 2, 3])
    assert where.sql == (
        "a >= %s AND (a > %s OR (a = %s AND (b >= %s AND (b > %s OR (b = %s AND (c > %s))))))"
    )
    assert where.values == (1, 1, 1, 2, 2, 2, 3)


def test_ranges_are_conditions():
    assert within("n", [(3, 3), (5, 9)]) == Where("(n = %s OR (n >= %s AND n <= %s))", (3, 5, 9))


@given(
    at=st.integers(-62135596800000000, 253402300799999999),
    key=st.none() | st.lists(st.integers() | st.text()),
)
def test_an_offset_gives_its_place_back(at, key):
    place = Place(at, None if key is None else tuple(key))
    assert place_of(place_offset(place)) == place


def test_kafka_connects_offsets_are_places():
    assert place_of(
        {"timestamp": 1704067200123, "timestamp_nanos": 123456000, "incrementing": 7}
    ) == Place(1704067200123456, (7,))


@pytest.mark.parametrize("offset", [{"timestamp": "yesterday"}, {"timestamp": [1]}])
def test_an_offset_that_means_nothing_is_refused(offset):
    with pytest.raises(ConfigError, match=r"jdbc\.bad_offset"):
        place_of(offset)


MODES = {
    "bulk": {"pass": 2, "key": [7]},
    "incrementing": {"incrementing": 7, "gaps": "3-4"},
    "timestamp": {"timestamp": "2024-01-01 00:00:00", "key": []},
    "timestamp+incrementing": {"timestamp": 1704067200123, "incrementing": 7},
}


@pytest.mark.parametrize("mode", MODES)
def test_an_offset_is_of_its_mode(mode):
    check_mode(MODES[mode], mode)
    for bad in ({}, {"n": 1}, {**MODES[mode], "key": 7}, dict.fromkeys(MODES[mode], True)):
        with pytest.raises(ConfigError, match=r"jdbc\.bad_offset"):
            check_mode(bad, mode)


def test_times_have_all_digits():
    assert time_text(0) == "1970-01-01 00:00:00.000000"


@given(st.permutations(range(1, 30)), st.data())
def test_every_number_is_read_once_whatever_the_order_of_commits(order, data):
    """A reader that polls at any moments, and is restarted at any of them."""
    visible, seen, last, held, now = [], [], None, (), 0.0
    for number in [*order, None, None]:
        if number is None:
            now += 5
        else:
            visible.append(number)
        if number is not None and data.draw(st.booleans()):
            continue
        due = [gap for gap in held if gap.is_due(now)]
        late = sorted(n for n in visible for gap in due if gap.low <= n <= gap.high)
        held = gaps.looked_at(held, due, late, now, 100.0)
        seen += late
        fresh = sorted(n for n in visible if last is None or n > last)
        if fresh:
            held = gaps.joined(held, gaps.found(last, pa.array(fresh), now))
            last, seen = fresh[-1], seen + fresh
        if data.draw(st.booleans()):
            held = gaps.of_text(gaps.to_text(held, now), now)
    assert sorted(seen) == list(range(1, 30))
    assert held == ()


def test_a_gap_is_given_up_after_a_last_look():
    (gap,) = gaps.found(1, pa.array([5]), 0.0)
    assert (gap.low, gap.high) == (2, 4)
    assert gaps.looked_at([gap], [gap], [3], 59.0, 60.0) == (
        gaps.Gap(2, 2, 0.0, 59.0),
        gaps.Gap(4, 4, 0.0, 59.0),
    )
    assert gaps.looked_at([gap], [gap], [], 61.0, 60.0) == ()
    assert gaps.looked_at([gap], [], [], 61.0, 60.0) == (gap,), "not without a look"


def test_a_gap_is_looked_at_more_and_more_rarely():
    now, looks = 0.0, 0
    gap = gaps.Gap(2, 4, 0.0, 0.0)
    while now < 60:
        if gap.is_due(now):
            looks += 1
            (gap,) = gaps.looked_at([gap], [gap], [], now, 60.0)
        now += 0.05
    assert looks < 60


def test_a_window_knows_equal_rows_by_their_number():
    window = Window()
    row = (5, b"12345678")
    window.add([row, row])
    assert window.new([row, row, row]) == [False, False, True]
    restored = Window(window.digests())
    restored.restored_until = 9
    assert restored.new([row, row, row]) == [False, False, True]
    restored.forget_before(10)
    assert len(restored) == 0


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_any_times_are_read_once_through_crashes(sqlite, read, keyed, seed):
    """Rows and updates with times of now and of a few seconds ago, polls and crashes, mixed."""
    import random

    rng = random.Random(seed)
    primary = "INTEGER PRIMARY KEY" if keyed else "INTEGER"
    sqlite.sql(f"CREATE TABLE t (id {primary}, version INTEGER, at DATETIME NOT NULL)")
    keys = sqlite.keys(
        mode="timestamp", timestamp_column_name="at", batch_max_rows=3, timestamp_late_ms="60s"
    )
    got, written, version = [], [], 0
    reader = read(keys)
    for _ in range(120):
        match rng.randrange(4):
            case 0 | 1:
                version += 1
                at = sqlite.dialect.now(sqlite.session)
                at -= timedelta(seconds=rng.choice([0, 0, 1, 5, 30]))
                sqlite.sql(
                    "INSERT INTO t VALUES (%s, %s, %s)" if not keyed else
                    "INSERT OR REPLACE INTO t VALUES (%s, %s, %s)",
                    rng.randrange(9) if keyed else version, version,
                    at.isoformat(" ", "milliseconds"),
                )  # fmt: skip
            case 2:
                for turn in reader.source._turns:
                    turn.due = 0.0
                reader.step()
            case 3 if rng.random() < 0.3:
                got += [row["version"] for row in reader.rows]
                reader = read(keys, reader.offsets)
    for _ in range(60):
        for turn in reader.source._turns:
            turn.due = 0.0
        reader.step()
    got += [row["version"] for row in reader.rows]
    written = [version for (version,) in sqlite.sql("SELECT version FROM t")]
    assert len(got) == len(set(got)), "read twice"
    assert set(written) <= set(got), "lost"
