"""Targets that are asked at intervals, as rows: what sources have in common that scrape.

A target is a partition. It is asked at its times, whatever becomes of the others; at most one
answer of each waits to be read. A target that gives no answer that can be used is down: its rows
say so (`up` is 0), and a warning why.
"""

from __future__ import annotations

import abc
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

import numpy as np
import pyarrow as pa

from penstock_connector import BadRow, Batch, ConnectorError, Partition, Source, key
from penstock_metrics.remote_write import labels_of
from penstock_metrics.rows import SCHEMA, to_rows
from penstock_metrics.web import ConnectKeys, invalid

_log = logging.getLogger(__name__)

_MOST_PARALLEL: Final = 64


@dataclass(frozen=True)
class ScrapeKeys(ConnectKeys):
    """How often targets are asked, and how their samples are labelled."""

    scrape_interval: float = key(
        15.0, doc="Time between two scrapes of a target.", type="duration", group="Targets"
    )
    parallel: int = key(8, doc="Targets of a task that are scraped at once.", group="Targets")
    job: str = key("penstock", doc="Value of the label `job`.", group="Labels")
    labels: tuple[str, ...] = key((), doc="Labels of all samples, as `name=value`.", group="Labels")
    dataset: str = key("metrics", doc="Dataset of the rows.", group="Labels")
    response_max_bytes: int = key(
        32 << 20, doc="Most bytes of an answer, unpacked.", type="size", group="Limits"
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        self.fixed_labels()
        urls = self.urls()
        if not urls:
            raise invalid("targets", "names no target")
        if len(set(urls)) != len(urls):
            raise invalid("targets", "names a target twice")
        for path, number in (
            ("scrape.interval", self.scrape_interval),
            ("response.max.bytes", self.response_max_bytes),
        ):
            if number <= 0:
                raise invalid(path, "must be more than 0")
        if self.request_timeout > self.scrape_interval:
            raise invalid("request.timeout", "must not be longer than `scrape.interval`")
        if not 1 <= self.parallel <= _MOST_PARALLEL:
            raise invalid("parallel", f"must be from 1 to {_MOST_PARALLEL}")

    def urls(self) -> list[str]:
        """Return the addresses of the targets."""
        raise NotImplementedError

    def fixed_labels(self) -> dict[str, str]:
        """Return the labels of all samples but `instance`."""
        return {"job": self.job, **labels_of(self.labels)}


@dataclass(frozen=True, slots=True)
class Scrape:
    """What came of a scrape.

    Attributes:
        url: The target.
        at_ms: When it began, in milliseconds since 1970.
        rows: Its samples, and those about the scrape.
        bad_rows: What is no sample.
        error: Why there was no answer, or none that can be used.
    """

    url: str
    at_ms: int
    rows: pa.RecordBatch
    bad_rows: list[BadRow]
    error: ConnectorError | None


class Target(abc.ABC):
    """Scrapes one target. Used by one thread at a time; `cut` is for others.

    Args:
        url: Its address.
        own: The labels of its samples that are ours.
    """

    def __init__(self, url: str, own: Mapping[str, str]) -> None:
        self.url, self.own = url, own

    @abc.abstractmethod
    def read(self, at_ms: int) -> tuple[pa.RecordBatch, list[BadRow]]:
        """Ask it once; return its samples, and what is none. Raises why there is no answer."""

    @abc.abstractmethod
    def require_samples(self) -> None:
        """Raise unless it answers with all that is asked for."""

    @abc.abstractmethod
    def cut(self) -> None:
        """End a running scrape now."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of the connection."""

    def details(self) -> Mapping[str, float]:
        """Return more samples about the last answer."""
        return {}

    def scrape(self) -> Scrape:
        """Ask it once; never raises what a target can do wrong."""
        at_ms, began = time.time_ns() // 1_000_000, time.monotonic()
        rows, bad, error = SCHEMA.empty_table(), list[BadRow](), None
        details: Mapping[str, float] = {}
        try:
            found, bad = self.read(at_ms)
            rows, details = pa.Table.from_batches([found]), self.details()
        except ConnectorError as failure:
            error = failure
        report = {
            "up": float(error is None),
            "scrape_duration_seconds": time.monotonic() - began,
            "scrape_samples_scraped": float(rows.num_rows),
            **details,
        }
        reported = pa.concat_tables([rows, self._report(report, at_ms)]).combine_chunks()
        (batch,) = reported.to_batches()
        return Scrape(self.url, at_ms, batch, bad, error)

    def _report(self, values: Mapping[str, float], at_ms: int) -> pa.Table:
        count = len(values)
        rows = to_rows(
            pa.array(list(values)),
            [self.own],
            np.zeros(count, np.int64),
            np.array(list(values.values())),
            np.full(count, at_ms, np.int64),
            pa.array(["gauge"] * count),
        )
        return pa.Table.from_batches([rows])


def labels_with(
    own: Mapping[str, str], given: Mapping[str, str], *, honor: bool = False
) -> dict[str, str]:
    """Return a target's labels with ours; where both have one, the target's is `exported_name`, or
    with `honor` the one that counts.
    """
    if honor:
        return {**own, **given}
    return {**own} | {
        (f"exported_{name}" if name in own else name): text for name, text in given.items()
    }


K = TypeVar("K", bound=ScrapeKeys)


class ScrapeSource(Source[K]):
    """Targets that are asked at intervals, as rows.

    Attributes:
        missed_code: Code of the warning that scrapes were not made.
    """

    replayable = False
    missed_code: ClassVar[str] = ""

    @classmethod
    def open_target(cls, url: str, config: K) -> Target:
        """Return what scrapes a target; it connects when it is asked."""
        raise NotImplementedError

    @classmethod
    def plan(cls, config: K, max_tasks: int, known: Sequence[Partition]) -> Sequence[Partition]:
        """Return a partition for each target."""
        return [Partition({"target": url}) for url in config.urls()]

    @classmethod
    def check(cls, config: K) -> None:
        """Ask every target once; raises what is wrong with the first that is down."""
        for url in config.urls():
            target = cls.open_target(url, config)
            try:
                target.require_samples()
            finally:
                target.close()

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Scrape all targets at once, and each again after its interval."""
        now = time.monotonic()
        urls = [str(one.key["target"]) for one in partitions]
        self._targets = {url: self.open_target(url, self.config) for url in urls}
        self._due = dict.fromkeys(urls, now)
        self._running: set[str] = set()
        self._down: set[str] = set()
        self._defect: Exception | None = None
        self._done: deque[Scrape] = deque()  # one of each target at most
        self._ready = threading.Event()
        self._pool = ThreadPoolExecutor(min(self.config.parallel, len(urls) or 1), "scrape")
        self.metrics.set("targets_down", 0)

    def read_batch(self) -> Batch | None:
        """Return the rows of a scrape that has ended."""
        self._ready.clear()
        if self._defect is not None:
            raise self._defect
        self._begin()
        if not self._done:
            return None
        scrape = self._done.popleft()
        self._running.discard(scrape.url)
        self._tell(scrape)
        return Batch(
            scrape.rows,
            partition={"target": scrape.url},
            offset={"scraped_ms": scrape.at_ms},
            dataset=self.config.dataset,
            bad_rows=scrape.bad_rows,
        )

    def wait(self, timeout: float) -> None:
        """Block until a scrape ends or is due."""
        due = [at for url, at in self._due.items() if url not in self._running]
        until = min(due, default=float("inf")) - time.monotonic()
        self._ready.wait(max(min(timeout, until), 0))

    def wake(self) -> None:
        """Make a running `wait` return."""
        if hasattr(self, "_ready"):
            self._ready.set()

    def close(self) -> None:
        """Let go of all connections."""
        if hasattr(self, "_pool"):
            for target in self._targets.values():
                target.cut()
            self._pool.shutdown(cancel_futures=True)
            for target in self._targets.values():
                target.close()

    def _begin(self) -> None:
        """Begin the scrapes that are due. A target whose last scrape was not yet taken is not
        scraped: what is kept is one answer of each.
        """
        now, interval = time.monotonic(), self.config.scrape_interval
        for url, due in self._due.items():
            if due > now or url in self._running:
                continue
            missed = int((now - due) / interval)
            if missed:
                self.metrics.add("scrapes_missed_total", missed)
                _log.warning(
                    "[%s] %d scrapes of %s were not made: the rows of the one before were not "
                    "taken in time", self.missed_code, missed, url,
                )  # fmt: skip
            self._due[url] = due + (missed + 1) * interval
            self._running.add(url)
            self._pool.submit(self._scrape, url)

    def _scrape(self, url: str) -> None:
        try:
            self._done.append(self._targets[url].scrape())
        except Exception as error:  # noqa: BLE001 - told by the thread of the task
            self._defect = error
        self._ready.set()

    def _tell(self, scrape: Scrape) -> None:
        """Say when a target goes down or comes back."""
        if scrape.error is not None:
            self.metrics.add("scrapes_failed_total")
            if scrape.url not in self._down:
                self._down.add(scrape.url)
                _log.warning(
                    "[%s] %s; the target is down until it answers. %s",
                    scrape.error.code, scrape.error.message, scrape.error.fix,
                )  # fmt: skip
        elif scrape.url in self._down:
            self._down.discard(scrape.url)
            _log.warning("%s is up again", scrape.url)
        self.metrics.set("targets_down", len(self._down))
