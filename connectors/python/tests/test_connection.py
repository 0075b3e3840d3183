"""Calls that are made again, and the keys that say how often."""

import contextvars
import json

import pytest

from penstock_connector import AuthError, RetriableError
from penstock_connector import connection as module
from penstock_connector._config import parse_config
from penstock_connector._logs import JsonLines, set_task
from penstock_connector.connection import ConnectionKeys, Retry


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self, stops_at=1e9):
        self.now, self.waits, self.stops_at = 0.0, [], stops_at

    def monotonic(self):
        return self.now

    def wait(self, seconds):
        self.waits.append(seconds)
        self.now += seconds
        return self.now >= self.stops_at


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def failing(times, error=RetriableError):
    """Return a call that fails some times, and the list of its calls."""
    calls = []

    def act():
        calls.append(1)
        if len(calls) <= times:
            raise error("a.code", "a test")
        return len(calls)

    return act, calls


def test_a_call_is_made_again_until_it_succeeds(clock):
    act, _ = failing(2)
    assert Retry(5, 3.0).call(act, clock.wait) == 3
    assert clock.waits == [3.0, 3.0]


def test_each_failure_that_is_tried_again_is_told_at_once(clock, caplog):
    act, _ = failing(9)
    with pytest.raises(RetriableError):
        Retry(3, 1.0).call(act, clock.wait)
    assert [record.getMessage() for record in caplog.records] == [
        "[a.code] a test; attempt 1 of 3, the next one in 1.0 s",
        "[a.code] a test; attempt 2 of 3, the next one in 1.0 s",
    ]


def test_a_line_of_an_attempt_says_which_task_makes_it(clock, caplog):
    """The host shows it as the status of the task while it opens."""
    with pytest.raises(RetriableError):
        Retry(2, 1.0).call(failing(9)[0], clock.wait)
    (record,) = caplog.records
    lines = JsonLines()
    assert "@attempt" not in json.loads(lines.format(record))  # no task: a check, for instance

    def format_in_task():
        set_task("g-0", 7)
        return json.loads(lines.format(record))

    assert contextvars.copy_context().run(format_in_task)["@attempt"] == {
        "task": "g-0", "epoch": 7, "code": "a.code", "message": "a test", "fix": "",
        "attempt": 1, "attempts": 2,
    }  # fmt: skip


def test_attempts_end_with_the_last_error(clock):
    act, calls = failing(9)
    lost = []
    with pytest.raises(RetriableError):
        Retry(3, 1.0).call(act, clock.wait, lambda: lost.append(len(calls)))
    assert lost == [1, 2, 3]
    assert clock.waits == [1.0, 1.0]


def test_an_error_that_no_time_heals_is_not_tried_again(clock):
    act, calls = failing(9, AuthError)
    with pytest.raises(AuthError):
        Retry(3, 1.0).call(act, clock.wait)
    assert len(calls) == 1


def test_waits_double_up_to_a_bound(clock):
    act, _ = failing(5)
    Retry(9, 1.0, max_backoff_s=5.0).call(act, clock.wait)
    assert clock.waits == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_no_call_begins_when_the_time_is_over(clock):
    act, calls = failing(9)
    with pytest.raises(RetriableError):
        Retry(9, 10.0, within_s=25.0).call(act, clock.wait)
    assert len(calls) == 3
    assert clock.now == 20.0


def test_no_call_begins_when_the_task_ends():
    act, calls = failing(9)
    with pytest.raises(RetriableError):
        Retry(9, 1.0).call(act, lambda _: True)
    assert len(calls) == 1


def test_a_server_that_asks_for_a_longer_wait_gets_it(clock):
    def act():
        if not clock.waits:
            raise RetriableError("a.code", "a test", retry_after=7.0)

    Retry(2, 1.0).call(act, clock.wait)
    assert clock.waits == [7.0]


def test_jitter_keeps_tasks_apart(clock):
    act, _ = failing(50)
    Retry(99, 1.0, jitter=True).call(act, clock.wait)
    assert min(clock.waits) >= 0.5
    assert max(clock.waits) <= 1.5
    assert len(set(clock.waits)) > 1


def test_the_keys_say_how_often_a_connection_is_opened():
    given = {"connection.url": "x", "connection.attempts": "7", "connection.backoff.ms": "250"}
    retry = parse_config(ConnectionKeys, given).connection_retry
    assert (retry.attempts, retry.backoff_s, retry.within_s) == (7, 0.25, 25.0)
