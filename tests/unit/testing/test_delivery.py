"""Each defect that is made on purpose turns the checker red, and only that one."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_kit.testing.delivery import Kind, check_delivery
from penstock_kit.testing.ledger import Entry, Spans


def entry(*sequences, epoch=1, txn=0, partition="p", task="sink/0", ok=True):
    rows = sum(last - first + 1 for first, last in sequences)
    return Entry(epoch, task, txn, partition, tuple(sequences), rows, ok)


SOURCE = {"p": Spans([(0, 99)])}
GOOD = [entry((0, 49), txn=1), entry((50, 99), txn=2)]


def kinds(report):
    return {defect.kind for defect in report.defects}


def test_every_row_once_and_in_order_is_clean():
    report = check_delivery(SOURCE, GOOD).require()
    assert (report.expected, report.delivered, report.batches) == (100, 100, 2)
    assert "no defects" in str(report)


@pytest.mark.parametrize(
    ("kind", "ledger", "rows"),
    [
        (Kind.GAP, GOOD[:1], 50),
        (Kind.GAP, [entry((0, 49)), entry((51, 99))], 1),
        (Kind.DUPLICATE, [*GOOD, entry((90, 99), txn=3)], 10),
        (Kind.DUPLICATE, [entry((0, 99), (7, 7))], 1),
        (Kind.STRANGER, [*GOOD, entry((100, 100), txn=3)], 1),
        (Kind.STRANGER, [*GOOD, entry((0, 0), partition="q")], 1),
        (Kind.REORDER, GOOD[::-1], 50),
        (Kind.REORDER, [entry((0, 49), (60, 99), (50, 59))], 10),
        (Kind.STALE, [entry((0, 49), epoch=2), entry((50, 99), epoch=1)], 50),
        (Kind.CORRUPT, [entry((0, 99), ok=False)], 100),
    ],
)
def test_a_defect_made_on_purpose_is_found_and_nothing_else(kind, ledger, rows):
    report = check_delivery(SOURCE, ledger)
    assert kinds(report) == {kind}
    assert report.rows(kind) == rows
    assert kind.value in str(report)
    with pytest.raises(AssertionError, match=kind.value):
        report.require()


def test_a_replay_after_a_crash_is_a_duplicate_and_no_reorder():
    report = check_delivery(SOURCE, [entry((0, 49), epoch=1), entry((30, 99), epoch=2)])
    assert kinds(report) == {Kind.DUPLICATE}
    report.require(duplicates=20)
    with pytest.raises(AssertionError, match="20 rows"):
        report.require(duplicates=19)


def test_a_task_of_another_name_has_epochs_of_its_own():
    other = entry((50, 99), epoch=1, task="sink/1")
    check_delivery(SOURCE, [entry((0, 49), epoch=9), other]).require()


def test_dead_and_filtered_rows_are_not_lost():
    dead, filtered = {"p": Spans([(50, 50)])}, {"p": Spans([(51, 51)])}
    ledger = [entry((0, 49)), entry((52, 99))]
    check_delivery(SOURCE, ledger, dead=dead, filtered=filtered).require()


@pytest.mark.parametrize("place", ["dead", "filtered"])
def test_a_row_in_two_places_is_a_duplicate(place):
    report = check_delivery(SOURCE, GOOD, **{place: {"p": Spans([(5, 6)])}})
    assert (kinds(report), report.rows(Kind.DUPLICATE)) == ({Kind.DUPLICATE}, 2)


def test_a_row_that_is_dead_and_filtered_is_a_duplicate():
    both = {"p": Spans([(0, 0)])}
    report = check_delivery(SOURCE, [entry((1, 99))], dead=both, filtered=both)
    assert kinds(report) == {Kind.DUPLICATE}


@given(st.data())
def test_however_rows_are_split_into_batches_a_whole_delivery_is_clean(data):
    """And without any one of its batches it is not."""
    ledger = []
    for partition in ("p", "q"):
        cuts = sorted(data.draw(st.sets(st.integers(1, 98), max_size=6)) | {0, 99})
        ledger += [
            entry((low, high - 1), partition=partition, txn=low) for low, high in pairwise(cuts)
        ]
    source = {"p": Spans([(0, 98)]), "q": Spans([(0, 98)])}
    check_delivery(source, ledger).require()
    lost = data.draw(st.sampled_from(ledger))
    report = check_delivery(source, [line for line in ledger if line is not lost])
    assert (kinds(report), report.rows(Kind.GAP)) == ({Kind.GAP}, lost.rows)
    assert check_delivery(source, [*ledger, lost]).rows(Kind.DUPLICATE) == lost.rows


@given(st.lists(st.integers(0, 15), max_size=30))
def test_counts_are_those_of_the_plain_definition(sequence):
    """Row by row, against the definition written in the plainest way."""
    report = check_delivery(
        {"p": Spans([(0, 15)])}, [entry((n, n), txn=i) for i, n in enumerate(sequence)]
    )
    counted = Counter(sequence)
    firsts = [n for i, n in enumerate(sequence) if n not in sequence[:i]]
    late = [n for i, n in enumerate(firsts) if any(before > n for before in firsts[:i])]
    assert report.rows(Kind.GAP) == 16 - len(counted)
    assert report.rows(Kind.DUPLICATE) == sum(counted.values()) - len(counted)
    assert report.rows(Kind.REORDER) == len(late)
