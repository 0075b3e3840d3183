"""Waiting for sockets and for a word."""

import contextlib
import resource
import socket
import threading
import time

import pytest

from penstock_databases.cdc.waiting import Bell

BEYOND = 1024
"""The first descriptor that select() does not know."""


@contextlib.contextmanager
def crowded():
    """A process that has so many files open that the next one is beyond what select() knows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * BEYOND), hard))
    with contextlib.ExitStack() as held:
        while (one := held.enter_context(socket.socket())).fileno() <= BEYOND:
            pass
        yield one
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.timed("a wait of 20 s ends at once")
def test_tasks_beside_a_thousand_open_files_wait_as_others_do():
    with crowded():
        bell = Bell()
        near, far = socket.socketpair()
        with near, far:
            far.send(b"x")
            bell.wait(20, near)
            near.recv(1)
            threading.Timer(0.05, bell.ring).start()
            began = time.monotonic()
            bell.wait(20, near)
            assert time.monotonic() - began < 10
        bell.close()


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_is_no_wait(seconds):
    bell = Bell()
    bell.wait(seconds)
    bell.close()
