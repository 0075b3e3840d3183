"""What a person at a terminal sees while a pipeline starts, and a program does not."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock_kit.testing import wait_until
from system.pipelines import ENDED


class Terminal:
    """A command whose standard error is a terminal; `seen` is all that it drew."""

    def __init__(self, folder: Path, *words: str | Path) -> None:
        ours, theirs = os.openpty()
        self._ours, self._drawn = ours, bytearray()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", *map(str, words)],
            cwd=folder,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    @property
    def seen(self) -> str:
        """What was drawn so far."""
        return self._drawn.decode(errors="replace")

    def ended(self) -> int:
        """Wait for its end; return how it ended."""
        code = self.process.wait(ENDED)
        self._reading.join(ENDED)
        os.close(self._ours)
        return code

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._ours, 4096)
            except OSError:  # Linux's end of a terminal whose other side is closed
                return
            self._drawn += part


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A file of ten lines that go into another, whose end is not waited for."""
    (tmp_path / "in.txt").write_text("row\n" * 10, encoding="utf-8")
    document = {
        "name": "signs",
        "source": {"connector.class": "file-source", "file": "in.txt", "tail": False},
        "sink": {"connector.class": "file-sink", "file": "out.txt"},
    }
    for end in ("source", "sink"):
        document[end]["file"] = str(tmp_path / document[end]["file"])
    path = tmp_path / "signs.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_run_shows_that_it_starts(pipeline: Path, tmp_path: Path) -> None:
    shown = Terminal(tmp_path, "run", pipeline, "--state", tmp_path / "state")
    assert shown.ended() == 0, shown.seen
    first, _, rest = shown.seen.partition("10 rows read")
    assert rest, shown.seen
    assert "0 rows/s" in first
    frames = set(re.findall("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", first))
    assert len(frames) > 3, "it moves"


def test_dev_shows_what_it_waits_for_until_rows_move(pipeline: Path, tmp_path: Path) -> None:
    shown = Terminal(tmp_path, "dev", pipeline, "--state", tmp_path / "state")
    wait_until(lambda: "10 rows written" in shown.seen, ENDED, "rows")
    os.killpg(shown.process.pid, signal.SIGINT)
    assert shown.ended() == 0, shown.seen
    assert "starting the services, Spark and the plugins …" in shown.seen.partition("10 rows")[0]
