"""`prometheus-source`: the task."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock_connector import Batch, Partition, Source
from penstock_metrics.prometheus_source.config import PrometheusSourceConfig
from penstock_metrics.prometheus_source.scraping import Scrape, Target

_log = logging.getLogger(__name__)


class PrometheusSource(Source[PrometheusSourceConfig]):
    """Metrics of targets as rows, by scraping.

    What a target answered once cannot be had again: after a crash, scrapes that were not yet
    written are missing.
    """

    name = "prometheus-source"
    title = "Metrics of targets as rows, by scraping"
    replayable = False

    @classmethod
    def plan(
        cls, config: PrometheusSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return a partition for each target."""
        return [Partition({"target": url}) for url in config.urls()]

    @classmethod
    def check(cls, config: PrometheusSourceConfig) -> None:
        """Scrape every target once; raises what is wrong with the first that is down."""
        for url in config.urls():
            target = Target(url, config)
            try:
                target.require_metrics()
            finally:
                target.close()

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Scrape all targets at once, and each again after its interval."""
        now = time.monotonic()
        urls = [str(one.key["target"]) for one in partitions]
        self._targets = {url: Target(url, self.config) for url in urls}
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
                    "[prometheus.scrapes_missed] %d scrapes of %s were not made: the rows of the "
                    "one before were not taken in time", missed, url,
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
