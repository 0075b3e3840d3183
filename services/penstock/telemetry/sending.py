"""What sends: the SDK of OpenTelemetry. Imported by processes that send something, and by no other.

How often, where to and how much at once is what the standard variables say (`OTEL_BSP_…`,
`OTEL_BLRP_…`, `OTEL_METRIC_EXPORT_INTERVAL`); the SDK reads them, and bounds its queues by them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from penstock.telemetry import usage
from penstock.telemetry.attributes import attributes_now
from penstock.telemetry.otlp import Protocol, Signal
from penstock.telemetry.redact import Redaction

Ended = Callable[[], None]

_OWN: Final = ("opentelemetry", "grpc", "urllib3")
"""Loggers whose lines are not sent: one about a line that could not be sent would be another."""

_PACKAGES: Final = {
    Protocol.GRPC: "opentelemetry.exporter.otlp.proto.grpc",
    Protocol.HTTP: "opentelemetry.exporter.otlp.proto.http",
}

_EXPORTERS: Final = {
    Signal.TRACES: ("trace_exporter", "OTLPSpanExporter"),
    Signal.METRICS: ("metric_exporter", "OTLPMetricExporter"),
    Signal.LOGS: ("_log_exporter", "OTLPLogExporter"),
}
"""Where each of the packages has what sends a signal: the module, and the class."""

_SEVERITIES: Final = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
)


def resource_of(service: str, environment: Mapping[str, str]) -> Resource:
    """Return what says of everything which process it is from."""
    named = {"service.version": version("penstock")}
    if not environment.get("OTEL_SERVICE_NAME"):
        named["service.name"] = f"penstock-{service}"
    return Resource.create(named)


def started(signal: Signal, protocol: Protocol, resource: Resource) -> Ended:
    """Begin to send a signal; returns what ends that, and sends the rest."""
    module, name = _EXPORTERS[signal]
    # one protocol is spoken as a rule, and the libraries of the other are not small
    exporter = getattr(import_module(f"{_PACKAGES[protocol]}.{module}"), name)()
    begin = {Signal.TRACES: _traces, Signal.METRICS: _metrics, Signal.LOGS: _logs}[signal]
    return begin(exporter, resource)


def _traces(exporter: Any, resource: Resource) -> Ended:
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def _metrics(exporter: Any, resource: Resource) -> Ended:
    reader = PeriodicExportingMetricReader(exporter)
    provider = MeterProvider([reader], resource=resource)
    metrics.set_meter_provider(provider)
    usage.observe()
    return provider.shutdown


def _logs(exporter: Any, resource: Resource) -> Ended:
    provider = LoggerProvider(resource=resource)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    handler = Sent(provider)
    logging.getLogger().addHandler(handler)

    def end() -> None:
        logging.getLogger().removeHandler(handler)
        provider.shutdown()

    return end


class Sent(logging.Handler):
    """Hands lines of the log on: with their attributes, and the trace that they are part of."""

    def __init__(self, provider: LoggerProvider) -> None:
        super().__init__()
        self._provider = provider
        self.addFilter(Redaction())

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a line on. The queue behind is bounded, and nobody waits for it."""
        if record.name.partition(".")[0] in _OWN:
            return
        told: dict[str, str | int] = {**attributes_now()}
        if record.exc_text:
            told["exception.stacktrace"] = record.exc_text
        self._provider.get_logger(record.name).emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                severity_number=_severity(record.levelno),
                severity_text=record.levelname,
                body=record.getMessage(),
                attributes=told,
            )
        )


def _severity(level: int) -> SeverityNumber:
    return next((number for least, number in _SEVERITIES if level >= least), SeverityNumber.DEBUG)
