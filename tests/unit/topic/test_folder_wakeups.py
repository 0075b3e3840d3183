"""Readers on a file system that tells nothing: the slow look finds every change."""

import asyncio
import os

import pytest

from penstock.topic.embedded import wakeups
from penstock.topic.embedded.wakeups import FolderWakeups
from unit.topic.producer_consumer import table_at


@pytest.fixture
def looked(tmp_path):
    """Looks at a topic at a time of our clock; returns whether its reader was woken."""
    table = table_at(tmp_path)
    table.log.create()
    event = asyncio.Event()
    waking = FolderWakeups()  # never started: no inotify
    waking.add(table, event)
    ((root, topic),) = waking._folders.items()

    def look(now):
        event.clear()
        waking._check(root, topic, now)
        return event.is_set()

    return table.log.path, look


@pytest.mark.parametrize("clock", [1.0, 4e9])
def test_two_changes_of_one_time_are_both_seen_whatever_clock_the_server_has(looked, clock):
    log, look = looked
    os.utime(log, (clock, clock))
    assert look(100.0)
    # a second version in the same moment of a coarse clock leaves the time as it is
    assert look(100.0 + wakeups.TIMESTAMP_RESOLUTION_S)
    assert not look(100.0 + wakeups.TIMESTAMP_RESOLUTION_S + wakeups.CHECK_INTERVAL_S)


def test_a_quiet_folder_wakes_nobody_and_a_change_does(looked):
    log, look = looked
    look(0.0)
    assert not look(100.0)
    os.utime(log, (5.0, 5.0))
    assert look(101.0)


def test_a_log_that_is_not_there_wakes_nobody(looked):
    log, look = looked
    log.rmdir()
    assert not look(0.0)
