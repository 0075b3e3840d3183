"""`penstock run`, as a user types it: what comes out, what it says, and how it ends."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from penstock_kit.testing import PenstockProcess
from support.processes import PLAIN
from system.pipelines import Outcome, Pipeline, ended, nothing_left

EVEN = "line LIKE '%even'"

STOPPED = 60.0
"""Seconds between SIGTERM and the end of a command, which are two on a machine that is idle."""

FROZEN = 60.0
"""The same with a plugin that answers nothing: the deadlines of its task, its streams and its
process come one after the other (8.3 s together) before it is killed."""

INTERRUPTED = 130


def files(
    folder: Path, *, source: Any = (), sink: Any = (), module: str = "penstock.cli", **rules: Any
) -> Pipeline:
    """Return a pipeline from the file `in.txt` to the file `out.txt` of a folder. `module`: see
    `Pipeline`.
    """
    read = {"connector.class": "file-source", "file": str(folder / "in.txt"), "tail": False}
    write = {"connector.class": "file-sink", "file": str(folder / "out.txt")}
    ends = {"source": {**read, **dict(source)}, "sink": {**write, **dict(sink)}}
    return Pipeline(folder, {**ends, **rules}, module)


def add_lines(folder: Path, first: int, count: int) -> list[str]:
    """Append numbered lines to `in.txt`, every other one even; return those."""
    words = ("even", "odd")
    lines = [f"{number} {words[number % 2]}" for number in range(first, first + count)]
    with (folder / "in.txt").open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return lines[first % 2 :: 2]


def written(folder: Path) -> list[str]:
    """Return the lines of `out.txt`."""
    path = folder / "out.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def test_each_run_moves_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    """A first run, one with nothing new, one after lines were appended."""
    pipeline = files(tmp_path, transforms=[{"name": "even", "type": "Filter", "condition": EVEN}])
    expected = add_lines(tmp_path, 0, 1000)

    first = pipeline.run()
    assert first.code == 0, first.output
    assert written(tmp_path) == expected
    assert counts(first) == (1000, 500, 0)

    second = pipeline.run()
    assert second.code == 0, second.output
    assert "Nothing new since the last run" in second.output
    assert written(tmp_path) == expected
    assert counts(second) == (0, 0, 0)

    expected += add_lines(tmp_path, 1000, 10)
    third = pipeline.run()
    assert third.code == 0, third.output
    assert written(tmp_path) == expected
    assert counts(third) == (10, 5, 0)


def counts(outcome: Outcome) -> tuple[int, int, int]:
    """Return the rows read, the rows written and the failed tasks of a report."""
    report = outcome.report
    return report["rows_read"], report["rows_written"], report["failed"]


def test_everything_that_is_wrong_is_reported_at_once(tmp_path: Path) -> None:
    """A misspelt key with the nearest one."""
    wrong = {"fromat": "csv", "tail": "nope"}
    outcome = files(tmp_path, source=wrong, sink={"fil": "y"}, topcs="a", module=PLAIN).run()
    assert outcome.code == 2, outcome.output
    assert "at:  topcs" in outcome.output  # what is no key of a pipeline is seen before it starts
    outcome = files(tmp_path, source=wrong, sink={"fil": "y"}, module=PLAIN).run()
    assert outcome.code == 2, outcome.output
    for key in ("source.fromat", "source.tail", "sink.fil"):
        assert f"at:  {key}" in outcome.output
    assert "[config.unknown_key]" in outcome.output
    assert re.search("Did you mean .format.", outcome.output)
    assert " more)" not in outcome.output


FUNCTIONS = """
def shout(row):
    return {"line": row["line"].upper()}
"""


def test_variables_and_functions_beside_the_file_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "a, b"  # a list of folders may have any character
    folder.mkdir()
    function = {"name": "shout", "type": "python", "function": "ours:shout", "mode": "row"}
    pipeline = files(folder, source={"file": "${IN_FILE}"}, transforms=[function], module=PLAIN)
    (folder / "ours.py").write_text(FUNCTIONS, encoding="utf-8")
    add_lines(tmp_path, 0, 2)
    outcome = pipeline.run(IN_FILE=str(tmp_path / "in.txt"))
    assert outcome.code == 0, outcome.output
    assert written(folder) == ["0 EVEN", "1 ODD"]
    outcome = pipeline.run()
    assert (outcome.code, "[pipeline.no_variable]" in outcome.output) == (2, True), outcome.output


def test_a_plugin_that_is_missing_is_answered_with_those_that_are_there(tmp_path: Path) -> None:
    outcome = files(tmp_path, sink={"connector.class": "oracle-sink"}, module=PLAIN).run()
    assert outcome.code == 2, outcome.output
    assert "[plugin.not_installed]" in outcome.output
    assert "file-sink, file-source, " in outcome.output


def test_a_file_that_is_missing_is_an_error_when_there_is_no_tail_to_wait_for(
    tmp_path: Path,
) -> None:
    refused(files(tmp_path, module=PLAIN).run(), "file.missing", "in.txt")


def test_a_transform_on_a_column_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    add_lines(tmp_path, 0, 10)
    chain = [{"name": "even", "type": "Filter", "condition": "lin LIKE '%even'"}]
    refused(files(tmp_path, transforms=chain).run(), "transform", "`line`")
    assert written(tmp_path) == []


def test_bytes_that_are_not_utf8_are_an_error_that_says_where(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"good\nb\xff\xfed\nnever\n")
    refused(files(tmp_path, module=PLAIN).run(), "utf8", "in.txt")
    assert "never" not in written(tmp_path)


def test_a_sink_outside_of_the_allowed_folders_writes_nothing(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    add_lines(tmp_path, 0, 10)
    outcome = files(tmp_path, sink={"allowed.roots": str(allowed)}, module=PLAIN).run()
    refused(outcome, "file.outside_roots", str(tmp_path), "allowed.roots")
    assert written(tmp_path) == []


def refused(outcome: Outcome, code: str, *words: str) -> None:
    """Check that a run ended with an error of this code, told to a person in these words."""
    assert outcome.code in {1, 2}, outcome.output
    errors = re.findall(r"^error: \[(\S+)\] (.*)$", outcome.output, re.MULTILINE)
    assert errors, outcome.output
    assert code in errors[-1][0], outcome.output
    shown = outcome.output[outcome.output.rindex("error: [") :]
    assert all(word in shown for word in words), shown
    assert "Traceback" not in outcome.output


def test_a_stop_ends_the_command_soon_and_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM while it waits for more lines."""
    pipeline = files(tmp_path, source={"tail": True})
    expected = [*add_lines(tmp_path, 0, 1), "1 odd"]
    add_lines(tmp_path, 1, 1)
    with pipeline.running() as process:
        process.wait_for(lambda: written(tmp_path) == expected, 180, "the lines to arrive")
        assert stopped(process) == INTERRUPTED
        assert " rows read, " in process.output  # what was moved until then
        nothing_left(process)


def test_a_stop_while_the_jvm_starts_does_not_wait_for_it(tmp_path: Path) -> None:
    add_lines(tmp_path, 0, 1)
    with files(tmp_path).running() as process:
        process.wait_for(
            lambda: any(p.program == "java" for p in process.process_tree()),
            120,
            "the JVM to start",
        )
        assert stopped(process) == INTERRUPTED, process.output
        nothing_left(process)
    assert written(tmp_path) == []


def test_a_second_command_on_the_same_state_is_refused(tmp_path: Path) -> None:
    """Two owners of one state would fence each other for ever."""
    pipeline = files(tmp_path, source={"tail": True}, module=PLAIN)
    with pipeline.running() as process:
        process.wait_for(pipeline.state.joinpath("state.db.lock").exists, 60, "the lock")
        outcome = pipeline.run()
        assert outcome.code == 2, outcome.output
        assert "[store.locked]" in outcome.output
        assert str(process.pid) in outcome.output
        assert stopped(process) == INTERRUPTED


@pytest.mark.parametrize("end", ["source", "sink"])
def test_a_plugin_that_blocks_does_not_hold_a_stop_up(tmp_path: Path, end: str) -> None:
    """The plugin's process is frozen while rows move: it answers nothing any more."""
    pipeline = files(tmp_path, source={"tail": True}, module=PLAIN)
    add_lines(tmp_path, 0, 2)
    with pipeline.running() as process:
        process.wait_for(lambda: len(written(tmp_path)) == 2, 180, "the lines to arrive")
        started = re.findall(rf"builtin/file-{end} \S+ started, process (\d+)", process.output)
        os.kill(int(started[-1]), signal.SIGSTOP)
        add_lines(tmp_path, 2, 2)
        assert stopped(process, FROZEN) == INTERRUPTED
        nothing_left(process)
    assert len(written(tmp_path)) == 2


def stopped(process: PenstockProcess, deadline: float = STOPPED) -> int:
    """Ask a command to stop, and return its exit code."""
    process.signal(signal.SIGTERM)
    stage = "the end after SIGTERM"
    process.wait_for(lambda: process.returncode is not None, deadline, stage)
    return ended(process).code
