"""Export of traces, metrics and logs by OTLP, configured by the standard variables.

For example `OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317`. Further variables:
`OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER`, `OTEL_LOGS_EXPORTER`,
`OTEL_EXPORTER_OTLP_PROTOCOL`, `OTEL_SERVICE_NAME` and others of the OpenTelemetry specification.

Without such a variable the SDK is not imported; spans and instruments then do nothing. No exported
text contains a value of a configuration or of a row, and logs are redacted (invariant 9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from importlib import import_module
from typing import Final

from penstock.model.errors import ConfigError


class Signal(Enum):
    """A signal, as the variables name it."""

    TRACES = "TRACES"
    METRICS = "METRICS"
    LOGS = "LOGS"


class Protocol(Enum):
    """The transport of OTLP, as the variables name it."""

    GRPC = "grpc"
    HTTP = "http/protobuf"


_PREFIX: Final = "OTEL_EXPORTER_OTLP_"

_exported: Final[set[Signal]] = set()


def is_enabled(signal: Signal, environment: Mapping[str, str]) -> bool:
    """Return whether the variables enable a signal."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get(f"OTEL_{signal.value}_EXPORTER", "").lower()
    if exporter:
        return exporter == "otlp"
    return any(environment.get(f"{_PREFIX}{of}ENDPOINT") for of in ("", f"{signal.value}_"))


def is_exported(signal: Signal) -> bool:
    """Return whether this process currently exports a signal."""
    return signal in _exported


@contextmanager
def export_telemetry(service: str, environment: Mapping[str, str]) -> Iterator[None]:
    """Export the enabled signals while the body runs.

    The end flushes what is left, for a few seconds at most.

    Raises:
        ConfigError: `telemetry.protocol`.
    """
    enabled = [signal for signal in Signal if is_enabled(signal, environment)]
    if not enabled:
        yield
        return
    with ExitStack() as stack:
        for stop in _start_exports(service, enabled, environment):
            stack.callback(stop)
        _exported.update(enabled)
        stack.callback(_exported.clear)
        yield


def _start_exports(
    service: str, signals: Sequence[Signal], environment: Mapping[str, str]
) -> Iterator[Callable[[], None]]:
    """Start the export of each signal; yield the functions that stop them."""
    protocols = {signal: _protocol(signal, environment) for signal in signals}
    # the SDK is imported only by processes that export
    otlp_export = import_module("penstock.telemetry.otlp_export")
    resource = otlp_export.process_resource(service, environment)
    for signal, protocol in protocols.items():
        yield otlp_export.start_export(signal, protocol, resource)


def _protocol(signal: Signal, environment: Mapping[str, str]) -> Protocol:
    names = (f"{_PREFIX}{signal.value}_PROTOCOL", f"{_PREFIX}PROTOCOL")
    name = next((name for name in names if environment.get(name)), "")
    if not name:
        return Protocol.GRPC
    try:
        return Protocol(environment[name])
    except ValueError:
        raise ConfigError(
            "telemetry.protocol",
            f"{signal.value.lower()} cannot be exported with protocol {environment[name][:50]!r}",
            fix=f"Set {name} to grpc (port 4317 of a collector) or http/protobuf (port 4318).",
            config_path=name,
        ) from None
