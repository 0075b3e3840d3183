"""The scratch folder of a killed process is removed by the next process, and no other folder is."""

import subprocess
import sys

from penstock.standalone.settings import scratch_folder

HOLD = """
import sys
from pathlib import Path
from penstock.standalone.settings import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_scratch_folder_is_removed_at_the_end(tmp_path):
    with scratch_folder(tmp_path) as folder:
        (folder / "socket").touch()
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == []


def test_folders_of_killed_processes_are_removed_and_others_stay(tmp_path):
    foreign = tmp_path / "penstock-quickstart"
    foreign.mkdir()
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        left = other.stdout.readline().strip()
        with scratch_folder(tmp_path) as mine:
            assert {str(p) for p in tmp_path.iterdir()} == {str(mine), left, str(foreign)}
        other.kill()
        other.wait()
        with scratch_folder(tmp_path) as mine:
            assert {str(p) for p in tmp_path.iterdir()} == {str(mine), str(foreign)}
