"""A run of the kit: every case against every connector of a plugin."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.conformance.bench import Bench, Grounds
from penstock.conformance.calls import RefusedError
from penstock.conformance.cases import Case, Spec
from penstock.conformance.checks import CHECKS
from penstock.conformance.declared import Declaration
from penstock.conformance.verdict import (
    NotApplicableError,
    Outcome,
    Result,
    RuleBrokenError,
)
from penstock.model.errors import ConfigError, PenstockError, nearest
from penstock.plugin.installed.manifest import Manifest

_FIRST: Final = frozenset({"start.handshake", "describe.offline"})
_AT_ONCE: Final = 3
"""Processes that start at the same time. More of them only slow each other on two cores."""
_MORE: Final = 90.0
"""Seconds that a case gets beyond the limit that it looks at: worlds, starts and readings take
time. A case that takes longer hangs."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tested: a plugin, what its author declares, and which of its connectors.

    Attributes:
        patience: Seconds without anything new after which rows are not waited for any more.
        jobs: How many connectors are tested at the same time.
    """

    manifest: Manifest
    declaration: Declaration
    is_folder: bool
    connectors: Sequence[str] = ()
    patience: float = 10.0
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Watch:
    """What is called as a case begins, with the connector's name, and as it ends."""

    began: Callable[[str, Case], None] = lambda _name, _case: None
    ended: Callable[[Result], None] = lambda _: None


async def run_cases(subject: Subject, spec: Spec, watch: Watch | None = None) -> list[Result]:
    """Run the cases of a specification; `watch` follows them.

    Raises:
        PenstockError: the plugin or its declaration cannot be tested at all.
    """
    results: list[Result] = []
    watch = watch or Watch()
    async with _grounds(subject) as grounds:
        await _process(grounds, spec, results, watch)
        if all(case.kind == "plugin" for case in spec.cases):
            return results
        if any(one.breaks and one.case in _FIRST for one in results):
            return results  # nothing of its connectors can be reached
        benches = await _benches(grounds, subject)
        try:
            await _connectors(benches, spec, results, watch, subject.jobs)
        finally:
            for bench in benches:
                await bench.close()
    return _in_order(results, spec, benches)


async def _process(grounds: Grounds, spec: Spec, results: list[Result], watch: Watch) -> None:
    """Run the cases of the process, some at once: most of their time is a process that starts."""
    bench, most = Bench(grounds), asyncio.Semaphore(_AT_ONCE)

    async def one(case: Case) -> None:
        async with most:
            await _one(bench, case, results, watch)

    await asyncio.gather(*(one(case) for case in spec.of_kind("plugin")))


async def _connectors(
    benches: Sequence[Bench], spec: Spec, results: list[Result], watch: Watch, jobs: int
) -> None:
    """Run the cases of connectors, one after the other for each of them; those that only wait run
    beside the others.
    """
    limit = asyncio.Semaphore(jobs)

    async def in_turn(bench: Bench) -> None:
        async with limit:
            for case in _of(bench, spec):
                if not case.beside:
                    await _one(bench, case, results, watch)

    running: list[asyncio.Task[object]] = [
        asyncio.create_task(_one(bench, case, results, watch))
        for bench in benches
        for case in _of(bench, spec)
        if case.beside
    ]
    running += [asyncio.create_task(in_turn(bench)) for bench in benches]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _of(bench: Bench, spec: Spec) -> list[Case]:
    return spec.of_kind(bench.kind)


async def _one(bench: Bench, case: Case, results: list[Result], watch: Watch) -> Result:
    watch.began(bench.name, case)
    began = time.monotonic()
    outcome, why = await _outcome(bench, case)
    seconds = time.monotonic() - began
    result = Result(bench.name, case.id, case.level, outcome, why, round(seconds, 2))
    results.append(result)
    watch.ended(result)
    return result


async def _outcome(bench: Bench, case: Case) -> tuple[Outcome, str]:
    try:
        async with asyncio.timeout(case.seconds + _MORE):
            if bench.name and not bench.wants(case):
                return Outcome.NOT_APPLICABLE, f"it does not say {case.needs.lower()}"
            await CHECKS[case.id](bench, case)
    except NotApplicableError as error:
        return Outcome.NOT_APPLICABLE, str(error)
    except RuleBrokenError as error:
        return Outcome.FAIL, str(error)
    except RefusedError as error:
        return Outcome.FAIL, str(error) if error.reset else f"a call failed: {error}"
    except PenstockError as error:  # a command of the author failed
        return Outcome.FAIL, str(error)
    except TimeoutError:
        return Outcome.FAIL, f"it did not come to an end within {case.seconds + _MORE:g} s"
    return Outcome.PASS, ""


@asynccontextmanager
async def _grounds(subject: Subject) -> AsyncIterator[Grounds]:
    with tempfile.TemporaryDirectory(prefix="conf-") as runtime:
        async with AsyncExitStack() as stack:
            yield Grounds(
                manifest=subject.manifest,
                folder=subject.declaration.folder,
                runtime_dir=Path(runtime) / "r",
                is_folder=subject.is_folder,
                stack=stack,
                patience=subject.patience,
            )


async def _benches(grounds: Grounds, subject: Subject) -> list[Bench]:
    try:
        described = (await grounds.describe()).connectors
    except (RuleBrokenError, RefusedError) as error:
        raise PenstockError(
            "conformance.not_described",
            f"the plugin does not describe itself: {error}",
            fix="See the case describe.offline first.",
        ) from None
    known = {spec.name: spec for spec in described}
    wanted = subject.connectors or list(known)
    for name in (*wanted, *subject.declaration.connectors):
        if name not in known:
            raise _no_connector(name, list(known))
    return [Bench(grounds, known[name], subject.declaration.of(name)) for name in wanted]


def _no_connector(name: str, known: Sequence[str]) -> ConfigError:
    like = nearest(name, known)
    return ConfigError(
        "conformance.no_connector",
        f"the plugin has no connector {name!r}; it has {', '.join(known) or 'none'}",
        suggestion=like[0] if like else "",
        fix=f"Did you mean {' or '.join(like)}?" if like else "Correct the name.",
    )


def _in_order(results: list[Result], spec: Spec, benches: Sequence[Bench]) -> list[Result]:
    names = ["", *(bench.name for bench in benches)]
    ids = [case.id for case in spec.cases]
    return sorted(results, key=lambda one: (names.index(one.connector), ids.index(one.case)))
