"""So many a second of each sender, with some saved up; the memory of senders is bounded."""

import pytest

from penstock.gateway.access import guard
from penstock.gateway.access.guard import RateLimit
from penstock.model.errors import RetriableError


class Clock:
    def __init__(self):
        self.at = 100.0

    def __call__(self):
        return self.at


def taken(rate, caller="a", most=1000):
    """How many a sender may take at once."""
    for count in range(most):
        try:
            rate.take(caller)
        except RetriableError:
            return count
    return most


def test_a_burst_is_what_ten_seconds_have_and_then_so_many_a_second():
    clock = Clock()
    rate = RateLimit(2, clock)
    assert taken(rate) == 20
    clock.at += 1
    assert taken(rate) == 2
    clock.at += 3600
    assert taken(rate) == 20


def test_senders_have_each_their_own():
    rate = RateLimit(1, Clock())
    assert (taken(rate, "a"), taken(rate, "b")) == (10, 10)


def test_who_is_refused_is_told_when_to_come_again():
    clock = Clock()
    rate = RateLimit(0.5, clock)
    assert taken(rate) == 5
    with pytest.raises(RetriableError) as caught:
        rate.take("a")
    assert (caught.value.code, caught.value.diagnostic.retry_after_s) == ("http.too_many", 2)
    clock.at += 2
    rate.take("a")


def test_nothing_is_counted_where_nothing_is_bounded():
    rate = RateLimit(0, Clock())
    assert taken(rate) == 1000
    assert not rate._due


def test_senders_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(guard, "MAX_SENDERS", 3)
    rate = RateLimit(1, Clock())
    for caller in "abcde":
        rate.take(caller)
    assert list(rate._due) == ["c", "d", "e"]
