"""One scrape of a Jolokia agent: a bulk request, and its answer as rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

import pyarrow as pa

from penstock_connector import BadRow
from penstock_metrics.jmx_source.answers import Samples, parse_answer
from penstock_metrics.jmx_source.config import JmxSourceConfig
from penstock_metrics.scrape import Target
from penstock_metrics.web import WebClient, instance_of, status_error

_log = logging.getLogger(__name__)


class JmxTarget(Target):
    """Scrapes one agent."""

    def __init__(self, url: str, config: JmxSourceConfig) -> None:
        super().__init__(url, {**config.fixed_labels(), "instance": instance_of(url)})
        self._config, self._reads = config, config.reads()
        self._client = WebClient(url, config, config.response_max_bytes, "targets")
        self._body = json.dumps([one.request() for one in self._reads]).encode()
        self._reported: dict[str, str] = {}
        self._failed = 0

    def read(self, at_ms: int) -> tuple[pa.RecordBatch, list[BadRow]]:
        """Ask it once."""
        found = self._asked()
        self._report_problems(found)
        return found.rows(self.own, at_ms), []

    def details(self) -> Mapping[str, float]:
        """Return how many reads gave nothing, or not all that they name."""
        return {"jmx_reads_failed": float(self._failed)}

    def require_samples(self) -> None:
        """Raise unless all that is read gives samples."""
        for problem in self._asked().problems.values():
            raise problem

    def cut(self) -> None:
        """End a running scrape now."""
        self._client.cut()

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _asked(self) -> Samples:
        answer = self._client.ask("POST", {"Content-Type": "application/json"}, self._body)
        if answer.status != 200:
            raise status_error(answer, self._client.shown, "targets")
        return parse_answer(
            answer.body,
            self._reads,
            self._client.shown,
            prometheus_names=self._config.prometheus_names,
        )

    def _report_problems(self, found: Samples) -> None:
        """Warn of what gives nothing: once, until it changes."""
        now = {name: problem.code for name, problem in found.problems.items()}
        for name, problem in found.problems.items():
            if self._reported.get(name) != problem.code:
                _log.warning("[%s] %s. %s", problem.code, problem.message, problem.fix)
        for name in self._reported.keys() - now.keys():
            _log.warning("%s: %r gives all samples now", self._client.shown, name)
        self._reported, self._failed = now, len(now)
