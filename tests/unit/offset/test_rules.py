"""Who may commit what, decided on values alone."""

from __future__ import annotations

import pytest

from penstock.model.errors import ConfigError, FencedError, InternalError, RetriableError
from penstock.offset.rules import (
    MOST_STATE,
    Commit,
    Prepared,
    TaskRecord,
    check_generation,
    check_sizes,
    check_task,
    claimed,
    committed,
)


def commit(epoch=5, prepared=None, applied=0, claim=0):
    return Commit("g", "g-0", epoch, {"p": b"1"}, prepared, applied, claim)


def txn(number, body=b"body"):
    return Prepared(number, body)


def test_a_first_claim_makes_a_record_with_nothing_to_recover():
    record = claimed(None, 0, 5)
    assert record == TaskRecord(5)
    assert not record.recover


def test_a_newer_epoch_takes_over_with_what_was_prepared():
    before = TaskRecord(5, txn(3), applied=False)
    assert claimed(before, 0, 9) == TaskRecord(9, txn(3), applied=False, claim=2)


def test_the_same_epoch_claims_again_and_ends_its_earlier_life():
    before = TaskRecord(5, txn(3), applied=True)
    again = claimed(before, 0, 5)
    assert again == TaskRecord(5, txn(3), applied=True, claim=2)
    with pytest.raises(RetriableError, match=r"offset\.claimed_again"):
        committed(again, 0, commit(claim=before.claim))
    assert committed(again, 0, commit(claim=again.claim)) == again
    assert committed(again, 0, commit()) == again, "who does not say is not compared"


@pytest.mark.parametrize(("record", "floor"), [(TaskRecord(9), 0), (None, 5), (TaskRecord(2), 7)])
def test_an_older_epoch_claims_nothing(record, floor):
    with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
        claimed(record, floor, 5)


def test_an_older_epoch_commits_nothing():
    with pytest.raises(FencedError, match=r"offset\.stale_epoch.*9, 5 is older"):
        committed(TaskRecord(9), 0, commit(5))


def test_an_epoch_under_the_floor_commits_nothing_though_it_claimed():
    with pytest.raises(FencedError):
        committed(TaskRecord(5), 5, commit(5))


@pytest.mark.parametrize("record", [None, TaskRecord(4)])
def test_a_commit_without_a_claim_is_refused(record):
    with pytest.raises(InternalError, match=r"offset\.not_claimed"):
        committed(record, 0, commit(5))


def test_what_is_prepared_is_to_be_recovered_until_it_is_told_as_applied():
    one = committed(TaskRecord(5), 0, commit(prepared=txn(1)))
    assert one.recover
    still = committed(one, 0, commit(applied=0))
    assert still.recover
    done = committed(one, 0, commit(applied=1))
    assert done == TaskRecord(5, txn(1), applied=True)
    assert not done.recover


def test_a_transaction_that_is_visible_already_is_never_recovered():
    done = committed(TaskRecord(5), 0, commit(prepared=txn(1), applied=1))
    assert done == TaskRecord(5, txn(1), applied=True)
    assert not done.recover


def test_a_next_transaction_tells_that_the_one_before_is_applied():
    one = committed(TaskRecord(5), 0, commit(prepared=txn(1)))
    two = committed(one, 0, commit(prepared=txn(2), applied=1))
    assert two == TaskRecord(5, txn(2), applied=False)


def test_a_prepared_state_that_is_not_applied_is_never_overwritten():
    one = committed(TaskRecord(5), 0, commit(prepared=txn(1)))
    with pytest.raises(InternalError, match=r"offset\.not_applied"):
        committed(one, 0, commit(prepared=txn(2), applied=0))


def test_applied_numbers_of_another_mode_recover_nothing_wrongly():
    """A task that ran without prepared state counts transactions too, and starts again at 1."""
    record = committed(TaskRecord(5), 0, commit(applied=57))
    assert committed(record, 0, commit(prepared=txn(1), applied=0)).recover


def test_a_repeated_commit_is_known_by_its_transaction():
    one = committed(TaskRecord(5), 0, commit(prepared=txn(1)))
    assert committed(one, 0, commit(prepared=txn(1))) is None


@pytest.mark.parametrize("late", [txn(1, b"other"), txn(0)])
def test_a_late_or_different_transaction_is_no_repetition(late):
    one = committed(TaskRecord(5), 0, commit(prepared=txn(1)))
    with pytest.raises(RetriableError, match=r"offset\.txn_superseded"):
        committed(one, 0, commit(prepared=late))


def test_a_transaction_of_an_earlier_epoch_is_no_repetition():
    before = TaskRecord(9, Prepared(1, b"body", epoch=5))
    with pytest.raises(RetriableError, match=r"offset\.txn_superseded"):
        committed(before, 0, commit(9, prepared=Prepared(1, b"body", epoch=9)))


@pytest.mark.parametrize("generation", ["", "a/b", "x" * 65, "g\n"])
def test_a_generation_cannot_reach_into_other_keys(generation):
    with pytest.raises(ConfigError, match=r"offset\.invalid"):
        check_generation(generation)


@pytest.mark.parametrize(("task", "epoch"), [("", 1), ("a/b", 1), ("g-0", 0)])
def test_what_is_no_task_or_epoch_is_refused(task, epoch):
    with pytest.raises(ConfigError, match=r"offset\.invalid"):
        check_task("g", task, epoch)


def test_sizes_are_bounded():
    check_sizes({"p": b"x"}, Prepared(1, b"", MOST_STATE))
    with pytest.raises(ConfigError, match=r"offset\.state_too_large"):
        check_sizes({}, Prepared(1, b"", MOST_STATE + 1))
    for offsets in ({"": b""}, {"p" * 10_000: b""}, {"p": b"x" * 100_000}):
        with pytest.raises(ConfigError, match=r"offset\.invalid"):
            check_sizes(offsets)
