"""The page of metrics, from the families that a gateway serves and the instruments of OTLP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from unittest.mock import patch

from opentelemetry import metrics
from prometheus_client.core import Metric

from penstock.gateway.clients import ProcessReports
from penstock.gateway.cluster_metrics import cluster_families, process_families
from penstock.gateway.task_metrics import KAFKA_PREFIX
from penstock.model.connector import ConnectorKind, TaskState, TaskStatus
from penstock.model.metrics import (
    METRIC_FAMILIES,
    DatasetRows,
    MinMeanMax,
    ProcessMetric,
    ProcessMetrics,
    TaskMetrics,
    TimeShares,
)
from penstock.model.status import (
    ClusterStatus,
    ConnectorStatus,
    RunState,
    RunStatus,
    WorkerStatus,
)
from penstock.worker.runtime.otel_metrics import create_instruments
from reference.markdown import code, codes, page, plain, table

_SPREAD: Final = MinMeanMax(1, 1, 1)


def write_page() -> str:
    """Return the page."""
    families = sample_families()
    kafka = [one for one in families if one.name.startswith(KAFKA_PREFIX)]
    own = [one for one in families if one not in kafka]
    return page(
        "Metrics",
        "A gateway serves the metrics of the whole cluster at `/metrics`; a standalone node has a "
        "gateway in it. Counts of a task are since it was assigned. `deploy/otel/README.md` has "
        "how to scrape them, the bounds, and variables of OTLP; alerts and a dashboard are in the "
        "same folder.",
        "## Penstock's names",
        _families_table(own),
        "A plugin reports metrics of its own as `penstock_plugin_NAME`, with the labels "
        "`connector`, `task`, `plugin` and `end` (source or sink).",
        "## Kafka Connect's names",
        "The same by the names that the JMX exporter gives to Kafka Connect's metrics.",
        _families_table(kafka),
        "## OTLP",
        "Instruments of the tasks of a worker. They are sent where a variable such as "
        "`OTEL_EXPORTER_OTLP_ENDPOINT` names a collector.",
        table(("instrument", "kind", "unit", "meaning"), _instruments()),
    )


def sample_families() -> list[Metric]:
    """Return all families that a gateway can serve, each with its labels."""
    return [*_cluster_families(), *_process_families()]


def _cluster_families() -> Iterable[Metric]:
    """Return the families of a cluster with a source and a sink, so that each has its labels."""
    kinds = (ConnectorKind.SOURCE, ConnectorKind.SINK)
    cluster = ClusterStatus("", 1, (WorkerStatus("w", "w"),))
    return cluster_families(cluster, [_status(kind) for kind in kinds])


def _status(kind: ConnectorKind) -> ConnectorStatus:
    numbers = TaskMetrics(
        commit_seconds=_SPREAD,
        batch_seconds=_SPREAD,
        batch_rows=_SPREAD,
        under_way=_SPREAD,
        shares=TimeShares(),
    )
    task = TaskStatus(
        task_id="c-0",
        connector="c",
        epoch=1,
        state=TaskState.RUNNING,
        batches=1,
        bytes_left=0,
        rows_left=0,
        metrics=numbers,
        datasets=(DatasetRows("d"),),
    )
    run = RunStatus("c-0", RunState.RUNNING, "w", task=task)
    return ConnectorStatus("c", "g", kind, RunState.RUNNING, "w", tasks=(run,))


def _process_families() -> Iterable[Metric]:
    numbers = tuple(
        ProcessMetric(name, 1, dict.fromkeys(family.labels, ""))
        for name, family in METRIC_FAMILIES.items()
    )
    report = ProcessMetrics("worker", "w", "w", numbers)
    return process_families(ProcessReports((report,), {"worker": 1}))


def _families_table(families: Iterable[Metric]) -> str:
    return table(
        ("metric", "kind", "labels", "meaning"),
        ((_name(one), one.type, codes(_labels(one)), plain(one.documentation)) for one in families),
    )


def _name(family: Metric) -> str:
    return code(f"{family.name}_total" if family.type == "counter" else family.name)


def _labels(family: Metric) -> list[str]:
    return list(family.samples[0].labels) if family.samples else []


def _instruments() -> list[tuple[str, str, str, str]]:
    meter = _Meter()
    with patch.object(metrics, "get_meter", lambda _: meter):
        create_instruments(lambda: ())
    return meter.rows


class _Meter:
    """A meter that notes what is created."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str]] = []

    def create_observable_counter(self, *arguments: Any) -> None:
        """Note a counter."""
        self._note("counter", *arguments)

    def create_observable_gauge(self, *arguments: Any) -> None:
        """Note a gauge."""
        self._note("gauge", *arguments)

    def _note(
        self, kind: str, name: str, _: Sequence[Callable[..., Any]], unit: str, help_: str
    ) -> None:
        self.rows.append((code(name), kind, code(unit), plain(help_)))
