"""A detached process is found again, and no other process is ever mistaken for it."""

import asyncio
import os
import signal
import subprocess

import pytest

from penstock.cluster.detached_process import DetachedProcess
from penstock_kit.testing import wait_until
from support.processes import DIES_WITH_US

SLEEPS = [*DIES_WITH_US, "sleep", "60"]


@pytest.fixture
def process(tmp_path):
    one = DetachedProcess(tmp_path, "one")
    yield one
    one.kill()


def ended(process, seconds=60.0):
    return asyncio.run(process.wait_ended(seconds))


def test_a_process_is_found_by_the_next_command_and_not_started_twice(process):
    process.start(SLEEPS, os.environ)
    pid = process.pid
    assert pid is not None
    again = DetachedProcess(process.folder, "one")
    again.start(SLEEPS, os.environ)
    assert again.pid == pid


def test_the_pid_file_holds_a_pid_and_nothing_else(process):
    process.start(SLEEPS, os.environ)
    assert (process.folder / "one.pid").read_text() == f"{process.pid}\n"
    subprocess.run(["sh", "-c", "kill $(cat one.pid)"], cwd=process.folder, check=True)
    assert ended(process)


def test_a_process_is_found_without_its_pid_file(process):
    process.start(SLEEPS, os.environ)
    pid = process.pid
    (process.folder / "one.pid").unlink()
    assert process.pid == pid


def test_a_process_ends_after_terminate(process):
    process.start(SLEEPS, os.environ)
    process.terminate()
    assert ended(process)
    assert process.pid is None
    assert [file.name for file in process.folder.iterdir()] == ["one.log"]


def test_a_process_that_does_not_end_is_reported(process):
    process.start(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"], os.environ)
    wait_until(lambda: process.last_error() == "deaf", 60, "the trap to be set")
    process.terminate()
    assert not ended(process, 0.3)
    process.kill()
    assert ended(process)


def test_another_process_with_the_same_pid_is_not_mistaken_for_it(process):
    with subprocess.Popen(SLEEPS) as stranger:
        (process.folder / "one.pid").write_text(f"{stranger.pid}\n")
        (process.folder / "one.started").write_text(f"{stranger.pid} 1\n")
        assert process.pid is None
        process.kill()
        process.terminate()
        assert ended(process)
        assert stranger.poll() is None
        stranger.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("content", ["", "{", "7", "1 x", "1 2 3"])
def test_a_damaged_file_means_no_process(process, content):
    (process.folder / "one.started").write_text(content)
    assert process.pid is None


def test_the_last_error_is_the_last_error_line_of_the_log(process):
    process.start(["sh", "-c", "echo a; echo 'error: [x.y] no'; echo '  fix: so'"], os.environ)
    assert ended(process)
    assert process.last_error() == "error: [x.y] no"
