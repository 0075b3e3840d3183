"""A process in its own folder: waits have deadlines, orphans and leftovers are found."""

import socket
import sys
import tempfile
from pathlib import Path

import pytest

from penstock_kit.testing.processes import PenstockProcess, find_leftovers, wait_until

ORPHAN = """
import os, subprocess, sys, time
env = {} if "clean" in sys.argv else None
child = subprocess.Popen(["sleep", "60"], start_new_session=True, env=env)
open(os.path.join(os.environ["TMPDIR"], "left"), "w").close()
print("child", child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a Python script in the place of the penstock command."""
    made = []

    def begin(script, *arguments):
        process = PenstockProcess(tmp_path / "run", *arguments)
        process._command = [sys.executable, "-c", script, *arguments]
        made.append(process)
        return process.start()

    yield begin
    for process in made:
        process.close()


def test_a_wait_that_fails_names_its_stage():
    with pytest.raises(TimeoutError, match=r"waited 0.05 s for the moon"):
        wait_until(lambda: False, 0.05, "the moon")


def test_a_wait_for_a_dead_process_ends_at_once_and_shows_its_log(start):
    process = start("print('my last words'); raise SystemExit(3)")
    with pytest.raises(RuntimeError, match=r"(?s)ended with 3 before the moon.*my last words"):
        process.wait_for(lambda: False, 30, "the moon")
    assert process.wait(1) == 3


def test_what_its_last_act_made_true_still_counts(start):
    process = start("print('done')")
    process.wait_for(lambda: "done" in process.output and process.returncode == 0, 60, "the end")


@pytest.mark.parametrize("environment", ["kept", "clean"])
def test_an_orphan_is_found_and_ended_whatever_its_environment(start, environment):
    process = start(ORPHAN, environment)
    process.wait_for(lambda: "child" in process.output, 60, "the child")
    child = process.output.split()[1]
    assert child in {str(p.pid) for p in process.process_tree()}
    process.kill()
    left = process.leftovers()
    assert [line.split()[0] for line in left.processes] == [child]
    assert [Path(file).name for file in left.files] == ["left"]
    process.close()
    assert not process.leftovers()
    assert str(process.leftovers()) == "nothing is left"
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text()


def test_a_socket_that_is_left_is_found(tmp_path):
    folder = Path(tempfile.mkdtemp(prefix="pst-"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        assert find_leftovers(folder).sockets == (str(folder / "s"),)
    (folder / "s").unlink()
    assert not find_leftovers(folder)
    folder.rmdir()


def test_penstock_is_started_as_a_user_would():
    process = PenstockProcess(Path("/tmp"), "--version")
    assert process._command[1:] == ["-m", "penstock.cli", "--version"]
    process.close()


def test_a_process_that_was_not_started_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="not started"):
        _ = PenstockProcess(tmp_path).pid
