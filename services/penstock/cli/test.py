"""`penstock test FILE…`: the `tests:` of pipeline files, each with input rows and expected rows.

Rows pass the same plans as in production, in an engine of this process. Sources and sinks stay
closed, so a test needs no database. Reading a test and comparing its result are pure functions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from penstock.aio import run_together, wait_for_first
from penstock.cli.connector_files import find_connector_files
from penstock.cli.errors import EXIT_FAILED
from penstock.cli.output import OUTPUTS, cell_text, print_value
from penstock.cli.process import JvmLostError, run_process
from penstock.cli.progress import status_line
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError, PenstockError, nearest_names
from penstock.model.inspection import PreviewRequest, PreviewResult
from penstock.pipeline_files.connector_file import (
    TESTS,
    check_pipeline,
    naming_file,
    read_connector,
)
from penstock.pipeline_files.files import read_document, read_values
from penstock.standalone.node import Node
from penstock.standalone.settings import pipeline_settings

KEYS: Final = ("name", "dataset", "columns", "input", "expected", "expected_dataset", "failed")
MAX_DIFFERENCES: Final = 20
"""Differences of one test that are printed: the user mends the first ones and runs it again."""


@dataclass(frozen=True, slots=True)
class PipelineTest:
    """A test of a file.

    Attributes:
        name: Its name; else its place in the file.
        file: The file that has it.
        connector: The connector of the file.
        request: The input rows.
        rows: The expected output rows, in order.
        dataset: The dataset that they go to; None for any.
        failed: Codes of the input rows that fail, by their number from 1.
    """

    name: str
    file: Path
    connector: Connector
    request: PreviewRequest
    rows: tuple[Any, ...]
    dataset: str | None = None
    failed: Mapping[int, str] = field(default_factory=dict)


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("files", nargs="+", type=Path, help="pipeline files, or folders of some")
    parser.add_argument("--only", metavar="TEXT", default="", help="tests whose name has this text")
    parser.add_argument(
        "--plugins", type=Path, action="append", default=[], help="plugin folders of the pipelines"
    )
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the tests; end with 1 when one fails."""
    tests = [test for file in find_connector_files(arguments.files) for test in read_tests(file)]
    if not tests:
        raise ConfigError(
            "test.none",
            "the files have no tests",
            fix="Add some to a pipeline file: `tests:`, a list of `name`, `input`, `expected`.",
        )
    selected = [test for test in tests if arguments.only in test.name]
    if not selected:
        names = ", ".join(test.name for test in tests)
        raise ConfigError(
            "test.none", f"no test has {arguments.only!r} in its name", fix=f"There are: {names}."
        )
    with status_line(f"starting Spark, then running {len(selected)} tests"):
        return run_process(lambda _: _run(arguments, selected))


async def _run(arguments: argparse.Namespace, tests: Sequence[PipelineTest]) -> int:
    folders = sorted({test.file.parent for test in tests})
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as state_dir:
        settings = pipeline_settings(folders, Path(state_dir), arguments.plugins)
        # nothing else runs here, so one JVM is enough
        settings = replace(settings, worker=replace(settings.worker, previews_in_process=False))
        async with (
            Node(settings) as node,
            run_together(node.wait_until_lost()) as (jvm_lost,),
            run_together(_run_tests(node, tests)) as (running,),
        ):
            await wait_for_first(jvm_lost, running)
            if not running.done():
                jvm_lost.result()
                raise JvmLostError({})
            outcomes = running.result()
    _print_outcomes(arguments.output, list(zip(tests, outcomes, strict=True)))
    return EXIT_FAILED if any(outcomes) else 0


async def _run_tests(node: Node, tests: Sequence[PipelineTest]) -> list[list[str]]:
    """Return the differences of each test; none for one that passes."""
    await node.wait_until_ready()
    outcomes = []
    for test in tests:
        try:
            result = await node.worker.preview_rows(test.connector, test.request)
        except PenstockError as error:
            outcomes.append([str(error)])
        else:
            outcomes.append(find_differences(test, result))
    return outcomes


def read_tests(file: Path) -> Iterator[PipelineTest]:
    """Yield the tests of a pipeline file, or of a file with a source or a sink alone.

    Raises:
        ConfigError: `config.file_…`, `test.malformed`.
    """
    connector = read_connector(file, keep_unset=True)  # neither source nor sink is needed
    if "connector.class" not in connector.config:
        with naming_file(file):
            connector = check_pipeline(connector)
    if TESTS not in read_document(file):
        return
    tests = read_values(file)[TESTS] or []
    if not isinstance(tests, list):
        raise ConfigError(
            "test.malformed", f"{file}: `tests` is not a list", fix="Write `- name: …` for each."
        )
    for number, raw in enumerate(tests, 1):
        yield parse_test(raw, file, connector, f"{file}: tests[{number}]")


def parse_test(raw: Any, file: Path, connector: Connector, place: str) -> PipelineTest:
    """Return a test out of its YAML value; `place` names it in errors.

    Raises:
        ConfigError: `test.malformed`.
    """
    if not isinstance(raw, Mapping):
        raise _malformed(place, "the test is not a mapping")
    for key in raw:
        if key not in KEYS:
            near = nearest_names(str(key), KEYS)
            hint = f"did you mean `{near[0]}`?" if near else f"expected {', '.join(KEYS)}"
            raise _malformed(place, f"unknown key `{key}`, {hint}")
    given, expected = raw.get("input", []), raw.get("expected", [])
    columns, failed = raw.get("columns") or {}, raw.get("failed") or {}
    for rows in (given, expected):
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise _malformed(
                place, "`input` and `expected` are lists of rows, `column: value` each"
            )
    if not isinstance(columns, Mapping) or not isinstance(failed, Mapping):
        raise _malformed(place, "`columns` maps `column: type`, and `failed` maps `row: code`")
    if not all(isinstance(row, int) for row in failed):
        raise _malformed(place, "`failed` names rows by their number, from 1")
    dataset = raw.get("expected_dataset")
    return PipelineTest(
        str(raw.get("name") or place),
        file,
        connector,
        PreviewRequest(
            tuple(_to_json(row) for row in given),
            str(raw.get("dataset") or ""),
            {str(name): str(type_) for name, type_ in columns.items()},
        ),
        tuple(json.loads(_to_json(row)) for row in expected),
        None if dataset is None else str(dataset),
        {row: str(code) for row, code in failed.items()},
    )


def find_differences(test: PipelineTest, result: PreviewResult) -> list[str]:
    """Return how a result differs from what the test expects, as sentences."""
    differences = list(_differences(test, result))
    more = len(differences) - MAX_DIFFERENCES
    return [*differences[:MAX_DIFFERENCES], *([f"and {more} more"] if more > 0 else [])]


def _differences(test: PipelineTest, result: PreviewResult) -> Iterator[str]:
    if test.dataset is not None and test.dataset != result.dataset:
        yield f"rows go to {result.dataset!r}, not to {test.dataset!r}"
    failed = dict(result.failed)
    for row in sorted(failed.keys() | test.failed.keys()):
        expected = test.failed.get(row)
        if row not in failed:
            yield f"row {row} does not fail, {expected} is expected"
        elif expected != failed[row].code:
            reason = f"row {row} fails: {failed[row]}"
            yield reason + (f"; {expected} is expected" if expected else "")
    rows = [json.loads(text) for text in result.rows]
    for number, (one, other) in enumerate(zip_longest(test.rows, rows), 1):
        if one is None:
            yield f"output row {number} is not expected: {_to_json(other)}"
        elif other is None:
            yield f"output row {number} is missing: {_to_json(one)}"
        elif one != other:
            yield from (f"output row {number}: {text}" for text in _column_differences(one, other))


def _column_differences(expected: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*expected, *row)):
        if name not in row:
            yield f"column {name!r} is missing"
        elif name not in expected:
            yield f"column {name!r} is not expected: {_to_json(row[name])}"
        elif expected[name] != row[name]:
            yield f"column {name!r} is {_to_json(row[name])}, not {_to_json(expected[name])}"


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _malformed(place: str, message: str) -> ConfigError:
    return ConfigError(
        "test.malformed",
        f"{place}: {message}",
        fix="Write `name: …`, `input: [{column: value}]` and `expected: [{column: value}]`.",
    )


def _print_outcomes(output: str, outcomes: Sequence[tuple[PipelineTest, Sequence[str]]]) -> None:
    if output != "table":
        print_value(output, [_outcome(*one) for one in outcomes])
        return
    for test, differences in outcomes:
        result = "failed" if differences else "passed"
        print(f"{result}  {cell_text(str(test.file))}: {cell_text(test.name)}")
        for difference in differences:
            print(f"        {cell_text(difference)}")


def _outcome(test: PipelineTest, differences: Sequence[str]) -> dict[str, Any]:
    value = {
        "file": str(test.file),
        "test": test.name,
        "result": "failed" if differences else "passed",
    }
    return value | ({"differences": list(differences)} if differences else {})
