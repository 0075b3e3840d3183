"""`penstock test FILE…`: the `tests:` of pipeline files, each rows in and the rows that come out.

Rows pass the same plans as in production, in an engine of this process; the ends stay closed, so no
test needs a database.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.cli.cases import Case, cases_of
from penstock.cli.errors import FAILED
from penstock.cli.expected import Outcome, outcome
from penstock.cli.process import Earlier, JvmLostError, hosted
from penstock.cli.remote.showing import OUTPUTS, cell, show
from penstock.cli.waiting import waiting
from penstock.cli.walking import walked
from penstock.model.errors import ConfigError, PenstockError
from penstock.standalone.node import Node
from penstock.standalone.settings import node_settings


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("files", nargs="+", type=Path, help="pipeline files, or folders of some")
    parser.add_argument("--only", metavar="TEXT", default="", help="tests whose name has the text")
    parser.add_argument("--plugins", type=Path, action="append", default=[], help="their folders")
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb: 1 when a test fails."""
    cases = [case for file in walked(arguments.files) for case in cases_of(file)]
    if not cases:
        raise ConfigError(
            "test.none",
            "no file has tests",
            fix="Write some into a pipeline file: `tests:`, a list of `name`, `input`, `expected`.",
        )
    chosen = [case for case in cases if arguments.only in case.expected.name]
    if not chosen:
        names = ", ".join(case.expected.name for case in cases)
        raise ConfigError(
            "test.none", f"no test has {arguments.only!r} in its name", fix=f"There are: {names}."
        )
    with waiting(f"Spark starts, then {len(chosen)} tests run"):
        return hosted(lambda earlier: _run(arguments, chosen, earlier))


async def _run(arguments: argparse.Namespace, cases: Sequence[Case], earlier: Earlier) -> int:
    del earlier  # nothing is carried over: a test has no state
    plugins = ",".join(str(folder.absolute()) for folder in arguments.plugins)
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as state:
        settings, _ = node_settings({"state.dir": state, "plugin.path": plugins})
        # nothing else runs here, so one JVM is enough
        settings = replace(settings, machine=replace(settings.machine, previews_apart=False))
        async with Node(settings) as node:
            lost = asyncio.create_task(node.lost())
            testing = asyncio.create_task(_outcomes(node, cases))
            try:
                await asyncio.wait({lost, testing}, return_when=asyncio.FIRST_COMPLETED)
                if not testing.done():
                    lost.result()
                    raise JvmLostError({})
                found = testing.result()
            finally:
                for one in (lost, testing):
                    one.cancel()
                await asyncio.gather(lost, testing, return_exceptions=True)
    _tell(arguments.output, list(zip(cases, found, strict=True)))
    return FAILED if any(one.differences for one in found) else 0


async def _outcomes(node: Node, cases: Sequence[Case]) -> list[Outcome]:
    await node.engine_ready()
    found = []
    for case in cases:
        try:
            became = await node.worker.rehearse(case.connector, case.expected.given)
        except PenstockError as error:
            found.append(Outcome((str(error),)))
        else:
            found.append(outcome(case.expected, became))
    return found


def _tell(output: str, found: Sequence[tuple[Case, Outcome]]) -> None:
    if output != "table":
        show(output, [_row(*one) for one in found])
        return
    for case, one in found:
        result = "failed" if one.differences else "passed"
        print(f"{result}  {cell(str(case.file))}: {cell(case.expected.name)}")
        for difference in one.differences:
            print(f"        {cell(difference)}")


def _row(case: Case, found: Outcome) -> dict[str, Any]:
    row = {
        "file": str(case.file),
        "test": case.expected.name,
        "result": "failed" if found.differences else "passed",
    }
    return row | ({"differences": list(found.differences)} if found.differences else {})
