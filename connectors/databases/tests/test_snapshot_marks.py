"""`source.snapshot`: which rows that are read are the first and the last."""

from dataclasses import dataclass

import pytest

from penstock_databases.cdc.progress import Progress, Window
from penstock_databases.cdc.snapshot_marks import snapshot_marks


@dataclass(frozen=True)
class Spot:
    number: int


@pytest.mark.parametrize(
    ("count", "first", "last", "marks"),
    [
        (0, "first", "last", []),
        (1, "first", "last", ["last"]),
        (1, "first", "last_in_data_collection", ["first"]),
        (1, "first_in_data_collection", "last_in_data_collection", ["last_in_data_collection"]),
        (1, "first_in_data_collection", "true", ["first_in_data_collection"]),
        (1, "true", "true", ["true"]),
        (2, "first", "true", ["first", "true"]),
        (3, "true", "last", ["true", "true", "last"]),
    ],
)
def test_the_first_and_the_last_of_rows_that_are_given_together(count, first, last, marks):
    assert snapshot_marks(count, first, last).to_pylist() == marks


def give(progress, table, count, done, rows=()):
    """The marks of the next rows of a table; `rows` are the tables that have some."""
    upto = None if done else (count,)
    window = Window(table, progress.work[table].last, upto, Spot(1))
    marks = progress.marks(window, count, done=done, follow=lambda one: one in rows)
    progress.given(window, done=done)
    return marks.to_pylist()


def test_a_snapshot_of_tables_that_are_read_in_parts():
    progress = Progress()
    progress.add(["a", "b"])
    assert give(progress, "a", 2, done=False) == ["first", "true"]
    assert give(progress, "b", 2, done=False) == ["first_in_data_collection", "true"]
    assert give(progress, "a", 2, done=True) == ["true", "last_in_data_collection"]
    assert give(progress, "b", 1, done=True) == ["last"]


def test_empty_tables_are_neither_first_nor_last():
    progress = Progress()
    progress.add(["none", "a", "empty", "nothing"])
    assert give(progress, "none", 0, done=True) == []
    assert give(progress, "a", 2, done=True) == ["first", "last"]
    assert give(progress, "empty", 0, done=True) == []


def test_a_table_that_has_rows_and_is_read_later_has_the_last_one():
    progress = Progress()
    progress.add(["a", "b"])
    assert give(progress, "a", 2, done=True, rows="b") == ["first", "last_in_data_collection"]
    assert give(progress, "b", 2, done=True) == ["first_in_data_collection", "last"]


def test_rows_that_a_signal_asked_for_are_no_part_of_a_snapshot():
    progress = Progress()
    progress.add(["a"])
    progress.add(["again"], incremental=True)
    assert give(progress, "again", 2, done=False) == ["incremental"] * 2
    assert give(progress, "a", 1, done=True, rows=["again"]) == ["last"]
    assert give(progress, "again", 1, done=True) == ["incremental"]


def test_a_table_of_a_snapshot_stays_one_when_a_signal_asks_for_it_too():
    progress = Progress()
    progress.add(["a"])
    progress.add(["a"], incremental=True)
    assert give(progress, "a", 2, done=True) == ["first", "last"]


def test_the_next_snapshot_has_a_first_row_again_and_one_that_begins_anew_has_not():
    progress = Progress()
    progress.add(["a"])
    assert give(progress, "a", 2, done=False)[0] == "first"
    progress.forget("a")
    progress.add(["a"], anew=True)
    assert give(progress, "a", 2, done=True) == ["first_in_data_collection", "last"]
    progress.add(["b"])
    assert give(progress, "b", 2, done=True) == ["first", "last"]
