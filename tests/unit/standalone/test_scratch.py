"""A process that was killed leaves a folder; the next one takes it away, and no other."""

import subprocess
import sys

from penstock.standalone.scratch import scratch

HOLD = """
import sys
from pathlib import Path
from penstock.standalone.scratch import scratch
with scratch(Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_it_is_gone_at_the_end(tmp_path):
    with scratch(tmp_path) as folder:
        (folder / "socket").touch()
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == []


def test_those_of_the_killed_go_and_those_of_the_living_stay(tmp_path):
    foreign = tmp_path / "penstock-quickstart"
    foreign.mkdir()
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        left = other.stdout.readline().strip()
        with scratch(tmp_path) as mine:
            assert {str(p) for p in tmp_path.iterdir()} == {str(mine), left, str(foreign)}
        other.kill()
        other.wait()
        with scratch(tmp_path) as mine:
            assert {str(p) for p in tmp_path.iterdir()} == {str(mine), str(foreign)}
