"""The rules of claims and commits, on values alone."""

from __future__ import annotations

import pytest

from penstock.model.errors import ConfigError, FencedError, InternalError, RetriableError
from penstock.offset.rules import (
    MAX_STATE_BYTES,
    Commit,
    PreparedTransaction,
    TaskRecord,
    apply_claim,
    apply_commit,
    check_generation,
    check_sizes,
    check_task,
)


def commit(epoch=5, prepared=None, applied=0, claim=0):
    return Commit("g", "g-0", epoch, {"p": b"1"}, prepared, applied, claim)


def txn(number, body=b"body"):
    return PreparedTransaction(number, body)


def test_a_first_claim_makes_a_record_with_nothing_to_recover():
    record = apply_claim(None, 0, 5)
    assert record == TaskRecord(5)
    assert not record.needs_recovery


def test_a_newer_epoch_takes_over_with_what_was_prepared():
    before = TaskRecord(5, txn(3), applied=False)
    assert apply_claim(before, 0, 9) == TaskRecord(9, txn(3), applied=False, claim=2)


def test_the_same_epoch_claims_again_and_fences_its_earlier_claim():
    before = TaskRecord(5, txn(3), applied=True)
    again = apply_claim(before, 0, 5)
    assert again == TaskRecord(5, txn(3), applied=True, claim=2)
    with pytest.raises(RetriableError, match=r"offset\.claimed_again"):
        apply_commit(again, 0, commit(claim=before.claim))
    assert apply_commit(again, 0, commit(claim=again.claim)) == again
    assert apply_commit(again, 0, commit()) == again, "who does not say is not compared"


@pytest.mark.parametrize(("record", "floor"), [(TaskRecord(9), 0), (None, 5), (TaskRecord(2), 7)])
def test_an_older_epoch_claims_nothing(record, floor):
    with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
        apply_claim(record, floor, 5)


def test_an_older_epoch_commits_nothing():
    with pytest.raises(FencedError, match=r"offset\.stale_epoch.*9, 5 is older"):
        apply_commit(TaskRecord(9), 0, commit(5))


def test_an_epoch_under_the_floor_commits_nothing_though_it_claimed():
    with pytest.raises(FencedError):
        apply_commit(TaskRecord(5), 5, commit(5))


@pytest.mark.parametrize("record", [None, TaskRecord(4)])
def test_a_commit_without_a_claim_is_refused(record):
    with pytest.raises(InternalError, match=r"offset\.not_claimed"):
        apply_commit(record, 0, commit(5))


def test_a_prepared_transaction_needs_recovery_until_it_is_reported_as_applied():
    one = apply_commit(TaskRecord(5), 0, commit(prepared=txn(1)))
    assert one.needs_recovery
    still = apply_commit(one, 0, commit(applied=0))
    assert still.needs_recovery
    done = apply_commit(one, 0, commit(applied=1))
    assert done == TaskRecord(5, txn(1), applied=True)
    assert not done.needs_recovery


def test_a_transaction_that_is_visible_already_is_never_recovered():
    done = apply_commit(TaskRecord(5), 0, commit(prepared=txn(1), applied=1))
    assert done == TaskRecord(5, txn(1), applied=True)
    assert not done.needs_recovery


def test_a_transaction_reports_that_the_one_before_is_applied():
    one = apply_commit(TaskRecord(5), 0, commit(prepared=txn(1)))
    two = apply_commit(one, 0, commit(prepared=txn(2), applied=1))
    assert two == TaskRecord(5, txn(2), applied=False)


def test_a_prepared_state_that_is_not_applied_is_never_overwritten():
    one = apply_commit(TaskRecord(5), 0, commit(prepared=txn(1)))
    with pytest.raises(InternalError, match=r"offset\.not_applied"):
        apply_commit(one, 0, commit(prepared=txn(2), applied=0))


def test_applied_numbers_of_another_mode_recover_nothing_wrongly():
    """A task that ran without prepared state counts transactions too, and starts again at 1."""
    record = apply_commit(TaskRecord(5), 0, commit(applied=57))
    assert apply_commit(record, 0, commit(prepared=txn(1), applied=0)).needs_recovery


def test_a_repeated_commit_is_known_by_its_transaction():
    one = apply_commit(TaskRecord(5), 0, commit(prepared=txn(1)))
    assert apply_commit(one, 0, commit(prepared=txn(1))) is None


@pytest.mark.parametrize("late", [txn(1, b"other"), txn(0)])
def test_a_late_or_different_transaction_is_not_a_repetition(late):
    one = apply_commit(TaskRecord(5), 0, commit(prepared=txn(1)))
    with pytest.raises(RetriableError, match=r"offset\.txn_superseded"):
        apply_commit(one, 0, commit(prepared=late))


def test_a_transaction_of_an_earlier_epoch_is_not_a_repetition():
    before = TaskRecord(9, PreparedTransaction(1, b"body", epoch=5))
    with pytest.raises(RetriableError, match=r"offset\.txn_superseded"):
        apply_commit(before, 0, commit(9, prepared=PreparedTransaction(1, b"body", epoch=9)))


@pytest.mark.parametrize("generation", ["", "a/b", "x" * 65, "g\n"])
def test_a_generation_cannot_reach_into_other_keys(generation):
    with pytest.raises(ConfigError, match=r"offset\.invalid"):
        check_generation(generation)


@pytest.mark.parametrize(("task", "epoch"), [("", 1), ("a/b", 1), ("g-0", 0)])
def test_an_invalid_task_id_or_epoch_is_refused(task, epoch):
    with pytest.raises(ConfigError, match=r"offset\.invalid"):
        check_task("g", task, epoch)


def test_sizes_are_bounded():
    check_sizes({"p": b"x"}, PreparedTransaction(1, b"", MAX_STATE_BYTES))
    with pytest.raises(ConfigError, match=r"offset\.state_too_large"):
        check_sizes({}, PreparedTransaction(1, b"", MAX_STATE_BYTES + 1))
    for offsets in ({"": b""}, {"p" * 10_000: b""}, {"p": b"x" * 100_000}):
        with pytest.raises(ConfigError, match=r"offset\.invalid"):
            check_sizes(offsets)
