"""The checker of histories: it takes what some order explains, and nothing else."""

from __future__ import annotations

import random

import pytest

from penstock_kit.testing import LOST, Call, find_unexplained


def register(state, what, answer):
    """A register: an int is written, None is a read."""
    if what is not None:
        return what
    return state if answer is None or state == answer else None


def found(*calls):
    return find_unexplained([Call(*call) for call in calls], 0, register)


def test_a_read_sees_what_was_written_before_it():
    assert found((0, 1, 7, None), (2, 3, None, 7)) == ()
    assert found((0, 1, 7, None), (2, 3, None, 0))


def test_a_read_that_overlaps_a_write_may_see_either():
    assert found((0, 9, 7, None), (2, 3, None, 7)) == ()
    assert found((0, 9, 7, None), (2, 3, None, 0)) == ()


def test_reads_in_turn_may_not_go_back():
    assert found((0, 9, 7, None), (1, 2, None, 7), (3, 4, None, 0))
    assert found((0, 9, 7, None), (1, 2, None, 0), (3, 4, None, 7)) == ()


def test_a_write_whose_answer_was_lost_may_come_late_or_never():
    lost = (0, LOST, 7, None)
    assert found(lost, (1, 2, None, 0), (3, 4, None, 0)) == ()
    assert found(lost, (1, 2, None, 0), (3, 4, None, 7)) == ()
    assert found(lost, (1, 2, None, 7), (3, 4, None, 0))


def test_what_is_returned_are_the_calls_that_nothing_explains():
    wrong = (4, 5, None, 3)
    assert found((0, 1, 7, None), (2, 3, None, 7), wrong) == [Call(*wrong)]


def lost_writes(rounds, last_read):
    """A service that is away again and again: its clients ask for the same, and all is lost."""
    calls, now = [], 0
    for number in range(1, rounds + 1):
        calls += [Call(now + n, LOST, (number, n % 3), None) for n in range(30)]
        calls.append(Call(now + 40, now + 41, (number, 1), None))
        now += 50
    return find_unexplained([*calls, Call(now, now + 1, None, last_read)], 0, register)


def test_many_calls_that_were_lost_are_decided():
    assert lost_writes(40, (7, 2)) == ()
    assert len(lost_writes(2, (1, 5))) == 1


@pytest.mark.parametrize("seed", range(20))
def test_every_history_of_a_real_register_is_taken_and_a_forged_one_is_not(seed):
    rng = random.Random(seed)
    calls, state, now = [], 0, 0.0
    for number in range(1, 200):
        now += 1
        began, ended = now - rng.random() * 4, now + rng.random() * 4
        if rng.random() < 0.5:
            state = number
            calls.append(Call(began, ended, number, None))
        else:
            calls.append(Call(began, ended, None, state))
    assert find_unexplained(calls, 0, register) == ()
    forged = [*calls, Call(now + 10, now + 11, None, state + 1_000)]
    assert find_unexplained(forged, 0, register) == [forged[-1]]
