"""Runs the cases of the specification against the process and the connectors of a plugin."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.model.errors import ConfigError, PenstockError, nearest_names
from penstock.plugin.catalog.manifest import Manifest
from penstock_kit.conformance.bench import Bench, PluginUnderTest
from penstock_kit.conformance.calls import RefusedError
from penstock_kit.conformance.cases import Case, Spec
from penstock_kit.conformance.checks import CHECKS
from penstock_kit.conformance.declaration import Declaration
from penstock_kit.conformance.results import NotApplicableError, Outcome, Result, RuleBrokenError

_PREREQUISITES: Final = frozenset({"start.handshake", "describe.offline"})
_MAX_CONCURRENT: Final = 3
"""Processes that start at the same time. More of them only slow each other down on two cores."""
_EXTRA_TIMEOUT_S: Final = 90.0
"""Time of a case beyond the limit that it checks: sandboxes, starts and reads take time. A case
that takes longer hangs."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The plugin to test, with the declaration of its author.

    Attributes:
        connectors: The connectors to test; none for all.
        timeout_s: Time without new rows after which a read gives up.
        jobs: Number of connectors that are tested at the same time.
    """

    manifest: Manifest
    declaration: Declaration
    is_folder: bool
    connectors: Sequence[str] = ()
    timeout_s: float = 10.0
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class RunObserver:
    """Callbacks at the start of a case, with the name of the connector, and at its end."""

    on_start: Callable[[str, Case], None] = lambda _name, _case: None
    on_end: Callable[[Result], None] = lambda _: None


async def run_cases(
    subject: Subject, spec: Spec, observer: RunObserver | None = None
) -> list[Result]:
    """Run the cases of a specification; `observer` is called at their starts and ends.

    Raises:
        PenstockError: the plugin does not describe itself, or a connector name is unknown.
    """
    results: list[Result] = []
    observer = observer or RunObserver()
    async with _plugin_under_test(subject) as plugin_under_test:
        await _run_process_cases(plugin_under_test, spec, results, observer)
        if all(case.kind == "plugin" for case in spec.cases):
            return results
        if any(one.is_violation and one.case in _PREREQUISITES for one in results):
            return results  # its connectors cannot be reached
        benches = await _benches(plugin_under_test, subject)
        try:
            await _run_connector_cases(benches, spec, results, observer, subject.jobs)
        finally:
            for bench in benches:
                await bench.close()
    return _sort_results(results, spec, benches)


async def _run_process_cases(
    plugin_under_test: PluginUnderTest, spec: Spec, results: list[Result], observer: RunObserver
) -> None:
    """Run the cases of the process concurrently: most of their time is the start of a process."""
    bench, limit = Bench(plugin_under_test), asyncio.Semaphore(_MAX_CONCURRENT)

    async def one(case: Case) -> None:
        async with limit:
            await _run_case(bench, case, results, observer)

    await asyncio.gather(*(one(case) for case in spec.of_kind("plugin")))


async def _run_connector_cases(
    benches: Sequence[Bench], spec: Spec, results: list[Result], observer: RunObserver, jobs: int
) -> None:
    """Run the cases of connectors, one after the other for each connector. Those that mostly wait
    (`beside`) run concurrently.
    """
    limit = asyncio.Semaphore(jobs)

    async def in_turn(bench: Bench) -> None:
        async with limit:
            for case in _cases_of(bench, spec):
                if not case.beside:
                    await _run_case(bench, case, results, observer)

    running: list[asyncio.Task[object]] = [
        asyncio.create_task(_run_case(bench, case, results, observer))
        for bench in benches
        for case in _cases_of(bench, spec)
        if case.beside
    ]
    running += [asyncio.create_task(in_turn(bench)) for bench in benches]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _cases_of(bench: Bench, spec: Spec) -> list[Case]:
    return spec.of_kind(bench.kind)


async def _run_case(
    bench: Bench, case: Case, results: list[Result], observer: RunObserver
) -> Result:
    observer.on_start(bench.name, case)
    started_at = time.monotonic()
    outcome, reason = await _outcome(bench, case)
    seconds = time.monotonic() - started_at
    result = Result(bench.name, case.id, case.level, outcome, reason, round(seconds, 2))
    results.append(result)
    observer.on_end(result)
    return result


async def _outcome(bench: Bench, case: Case) -> tuple[Outcome, str]:
    try:
        async with asyncio.timeout(case.seconds + _EXTRA_TIMEOUT_S):
            if bench.name and not bench.supports(case):
                return Outcome.NOT_APPLICABLE, f"it does not have {case.needs.lower()}"
            await CHECKS[case.id](bench, case)
    except NotApplicableError as error:
        return Outcome.NOT_APPLICABLE, str(error)
    except RuleBrokenError as error:
        return Outcome.FAIL, str(error)
    except RefusedError as error:
        return Outcome.FAIL, str(error) if error.was_reset else f"a call failed: {error}"
    except PenstockError as error:  # a command of the author has failed
        return Outcome.FAIL, str(error)
    except TimeoutError:
        return Outcome.FAIL, f"it did not end within {case.seconds + _EXTRA_TIMEOUT_S:g} s"
    return Outcome.PASS, ""


@asynccontextmanager
async def _plugin_under_test(subject: Subject) -> AsyncIterator[PluginUnderTest]:
    with tempfile.TemporaryDirectory(prefix="conf-") as runtime:
        async with AsyncExitStack() as stack:
            yield PluginUnderTest(
                manifest=subject.manifest,
                folder=subject.declaration.folder,
                runtime_dir=Path(runtime) / "r",
                is_folder=subject.is_folder,
                stack=stack,
                timeout_s=subject.timeout_s,
            )


async def _benches(plugin_under_test: PluginUnderTest, subject: Subject) -> list[Bench]:
    try:
        specs = (await plugin_under_test.describe()).connectors
    except (RuleBrokenError, RefusedError) as error:
        raise PenstockError(
            "conformance.not_described",
            f"the plugin does not describe itself: {error}",
            fix="See the case describe.offline first.",
        ) from None
    known = {spec.name: spec for spec in specs}
    names = subject.connectors or list(known)
    for name in (*names, *subject.declaration.connectors):
        if name not in known:
            raise _no_connector(name, list(known))
    return [Bench(plugin_under_test, known[name], subject.declaration.of(name)) for name in names]


def _no_connector(name: str, known: Sequence[str]) -> ConfigError:
    like = nearest_names(name, known)
    return ConfigError(
        "conformance.no_connector",
        f"the plugin has no connector {name!r}; it has {', '.join(known) or 'none'}",
        suggestion=like[0] if like else "",
        fix=f"Did you mean {' or '.join(like)}?" if like else "Correct the name.",
    )


def _sort_results(results: list[Result], spec: Spec, benches: Sequence[Bench]) -> list[Result]:
    names = ["", *(bench.name for bench in benches)]
    ids = [case.id for case in spec.cases]
    return sorted(results, key=lambda one: (names.index(one.connector), ids.index(one.case)))
