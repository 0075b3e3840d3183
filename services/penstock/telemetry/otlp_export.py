"""The export through the SDK of OpenTelemetry, imported only by processes that export.

The standard variables set intervals, destinations and batch sizes (`OTEL_BSP_…`, `OTEL_BLRP_…`,
`OTEL_METRIC_EXPORT_INTERVAL`). The SDK reads them and bounds its queues accordingly.
"""

from __future__ import annotations

import logging
import resource as os_resource
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from penstock.telemetry.logs import log_attributes
from penstock.telemetry.otlp import Protocol, Signal
from penstock.telemetry.redaction import RedactionFilter

Stop = Callable[[], None]

_EXCLUDED_LOGGERS: Final = ("opentelemetry", "grpc", "urllib3")
"""Loggers whose lines are not exported: a failed export would log a line to export."""

_PACKAGES: Final = {
    Protocol.GRPC: "opentelemetry.exporter.otlp.proto.grpc",
    Protocol.HTTP: "opentelemetry.exporter.otlp.proto.http",
}

_EXPORTERS: Final = {
    Signal.TRACES: ("trace_exporter", "OTLPSpanExporter"),
    Signal.METRICS: ("metric_exporter", "OTLPMetricExporter"),
    Signal.LOGS: ("_log_exporter", "OTLPLogExporter"),
}
"""The module and the class of each exporter, within either package."""

_STATM: Final = Path("/proc/self/statm")
_FILES: Final = Path("/proc/self/fd")
_PAGE: Final = os_resource.getpagesize()

_SEVERITIES: Final = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
)


def process_resource(service: str, environment: Mapping[str, str]) -> Resource:
    """Return the resource that identifies this process."""
    attributes = {"service.version": version("penstock")}
    if not environment.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = f"penstock-{service}"
    return Resource.create(attributes)


def start_export(signal: Signal, protocol: Protocol, resource: Resource) -> Stop:
    """Start the export of a signal; return the function that flushes and stops it."""
    module, name = _EXPORTERS[signal]
    # imports only the library of the protocol in use
    exporter = getattr(import_module(f"{_PACKAGES[protocol]}.{module}"), name)()
    start = {
        Signal.TRACES: _start_traces,
        Signal.METRICS: _start_metrics,
        Signal.LOGS: _start_logs,
    }[signal]
    return start(exporter, resource)


def _start_traces(exporter: Any, resource: Resource) -> Stop:
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def _start_metrics(exporter: Any, resource: Resource) -> Stop:
    reader = PeriodicExportingMetricReader(exporter)
    provider = MeterProvider([reader], resource=resource)
    metrics.set_meter_provider(provider)
    _observe_process()
    return provider.shutdown


def _start_logs(exporter: Any, resource: Resource) -> Stop:
    provider = LoggerProvider(resource=resource)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    handler = ExportHandler(provider)
    logging.getLogger().addHandler(handler)

    def stop() -> None:
        logging.getLogger().removeHandler(handler)
        provider.shutdown()

    return stop


class ExportHandler(logging.Handler):
    """Exports log lines with their attributes and their trace."""

    def __init__(self, provider: LoggerProvider) -> None:
        super().__init__()
        self._provider = provider
        self.addFilter(RedactionFilter())

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line. The queue is bounded, and logging never waits for it."""
        if record.name.partition(".")[0] in _EXCLUDED_LOGGERS:
            return
        attributes: dict[str, str | int] = {**log_attributes()}
        if record.exc_text:
            attributes["exception.stacktrace"] = record.exc_text
        self._provider.get_logger(record.name).emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                severity_number=_severity(record.levelno),
                severity_text=record.levelname,
                body=record.getMessage(),
                attributes=attributes,
            )
        )


def _severity(level: int) -> SeverityNumber:
    return next(
        (number for minimum, number in _SEVERITIES if level >= minimum), SeverityNumber.DEBUG
    )


def _observe_process() -> None:
    """Measure memory, CPU time and open files of this process whenever metrics are exported."""
    meter = metrics.get_meter("penstock")
    meter.create_observable_gauge("process.memory.usage", [_memory_usage], "By", "Memory in use.")
    meter.create_observable_counter("process.cpu.time", [_cpu_time], "s", "Time of all cores.")
    meter.create_observable_gauge(
        "process.unix.file_descriptor.count", [_open_files], "{file_descriptor}", "Open files."
    )


def _memory_usage(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(int(_STATM.read_text(encoding="ascii").split()[1]) * _PAGE)]


def _cpu_time(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(time.process_time())]


def _open_files(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(sum(1 for _ in _FILES.iterdir()))]
