"""Traces, metrics and logs, sent by OTLP to where the standard variables say:
`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER`,
`OTEL_LOGS_EXPORTER`, `OTEL_SERVICE_NAME` and the others of the OpenTelemetry specification.

Without such a variable nothing is imported and nothing is made: a span, and an instrument, is then
an object that does nothing. Nothing that is sent has a value of a configuration or of a row, and
secrets are masked in logs (invariant 9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum
from importlib import import_module
from typing import Final

from penstock.model.errors import ConfigError


class Signal(Enum):
    """What may be sent, as the variables call it."""

    TRACES = "TRACES"
    METRICS = "METRICS"
    LOGS = "LOGS"


_ALL: Final = "OTEL_EXPORTER_OTLP_"

_sent: Final[set[Signal]] = set()


def is_wanted(signal: Signal, environment: Mapping[str, str]) -> bool:
    """Tell whether a signal is to be sent."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get(f"OTEL_{signal.value}_EXPORTER", "").lower()
    if exporter:
        return exporter == "otlp"
    return any(environment.get(f"{_ALL}{of}ENDPOINT") for of in ("", f"{signal.value}_"))


def is_sent(signal: Signal) -> bool:
    """Tell whether this process sends a signal just now."""
    return signal in _sent


@contextmanager
def exported(service: str, environment: Mapping[str, str]) -> Iterator[None]:
    """Send what is wanted of this process while the body runs. What is not sent yet when it ends is
    sent then, for a few seconds at most.

    Raises:
        ConfigError: `telemetry.not_installed`, `telemetry.protocol`.
    """
    wanted = [signal for signal in Signal if is_wanted(signal, environment)]
    if not wanted:
        yield
        return
    for signal in wanted:
        _check_protocol(signal, environment)
    try:
        # only who sends pays for what sends
        sending = import_module("penstock.telemetry.sending")
    except ImportError as error:
        raise ConfigError(
            "telemetry.not_installed",
            f"traces, metrics or logs are to be sent, and {error.name} is not installed",
            fix="Install penstock[otel], or leave the variables OTEL_… out.",
        ) from None
    resource = sending.resource_of(service, environment)
    with ExitStack() as stack:
        for signal in wanted:
            stack.callback(sending.started(signal, resource))
        _sent.update(wanted)
        stack.callback(_sent.clear)
        yield


def _check_protocol(signal: Signal, environment: Mapping[str, str]) -> None:
    names = (f"{_ALL}{signal.value}_PROTOCOL", f"{_ALL}PROTOCOL")
    protocol = next((environment[name] for name in names if environment.get(name)), "grpc")
    if protocol != "grpc":
        raise ConfigError(
            "telemetry.protocol",
            f"{signal.value.lower()} cannot be sent by {protocol[:50]!r}",
            fix=f"Set {names[1]} to grpc, which collectors take at port 4317.",
            config_path=names[1],
        )
