"""A detached process is found again, and no other is ever taken for it."""

import asyncio
import os
import signal
import subprocess

import pytest

from penstock.cluster.detached import Detached
from penstock.testing import wait_until
from support.ports import DIES_WITH_US

SLEEPS = [*DIES_WITH_US, "sleep", "60"]


@pytest.fixture
def process(tmp_path):
    one = Detached(tmp_path, "one")
    yield one
    one.kill()


def ended(process, seconds=60.0):
    return asyncio.run(process.ended(seconds))


def test_it_is_found_by_the_next_command_and_not_started_twice(process):
    process.start(SLEEPS, os.environ)
    pid = process.pid
    assert pid is not None
    again = Detached(process.folder, "one")
    again.start(SLEEPS, os.environ)
    assert again.pid == pid


def test_its_pid_file_holds_a_pid_and_nothing_else(process):
    process.start(SLEEPS, os.environ)
    assert (process.folder / "one.pid").read_text() == f"{process.pid}\n"
    subprocess.run(["sh", "-c", "kill $(cat one.pid)"], cwd=process.folder, check=True)
    assert ended(process)


def test_it_is_found_when_a_person_has_removed_its_pid_file(process):
    process.start(SLEEPS, os.environ)
    pid = process.pid
    (process.folder / "one.pid").unlink()
    assert process.pid == pid


def test_it_ends_when_it_is_asked_to(process):
    process.start(SLEEPS, os.environ)
    process.ask_to_end()
    assert ended(process)
    assert process.pid is None
    assert [file.name for file in process.folder.iterdir()] == ["one.log"]


def test_one_that_does_not_end_is_told_apart(process):
    process.start(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"], os.environ)
    wait_until(lambda: process.last_words() == "deaf", 60, "the trap to be set")
    process.ask_to_end()
    assert not ended(process, 0.3)
    process.kill()
    assert ended(process)


def test_another_process_with_its_number_is_not_taken_for_it(process):
    with subprocess.Popen(SLEEPS) as stranger:
        (process.folder / "one.pid").write_text(f"{stranger.pid}\n")
        (process.folder / "one.started").write_text(f"{stranger.pid} 1\n")
        assert process.pid is None
        process.kill()
        process.ask_to_end()
        assert ended(process)
        assert stranger.poll() is None
        stranger.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("content", ["", "{", "7", "1 x", "1 2 3"])
def test_a_damaged_file_is_no_process(process, content):
    (process.folder / "one.started").write_text(content)
    assert process.pid is None


def test_its_last_words_are_its_last_error(process):
    process.start(["sh", "-c", "echo a; echo 'error: [x.y] no'; echo '  fix: so'"], os.environ)
    assert ended(process)
    assert process.last_words() == "error: [x.y] no"
