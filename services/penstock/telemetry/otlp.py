"""Traces, metrics and logs, sent by OTLP to where the standard variables say:
`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER`,
`OTEL_LOGS_EXPORTER`, `OTEL_EXPORTER_OTLP_PROTOCOL`, `OTEL_SERVICE_NAME` and the others of the
OpenTelemetry specification.

Without such a variable nothing is imported and nothing is made: a span, and an instrument, is then
an object that does nothing. Nothing that is sent has a value of a configuration or of a row, and
secrets are masked in logs (invariant 9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


class Protocol(Enum):
    """What OTLP is spoken over, as the variables call it."""

    GRPC = "grpc"
    HTTP = "http/protobuf"


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
        ConfigError: `telemetry.protocol`.
    """
    wanted = [signal for signal in Signal if is_wanted(signal, environment)]
    if not wanted:
        yield
        return
    with ExitStack() as stack:
        for end in _started(service, wanted, environment):
            stack.callback(end)
        _sent.update(wanted)
        stack.callback(_sent.clear)
        yield


def _started(
    service: str, wanted: Sequence[Signal], environment: Mapping[str, str]
) -> Iterator[Callable[[], None]]:
    """Begin to send each signal; gives what ends that."""
    protocols = {signal: _protocol(signal, environment) for signal in wanted}
    # only who sends pays for what sends
    sending = import_module("penstock.telemetry.sending")
    resource = sending.resource_of(service, environment)
    for signal, protocol in protocols.items():
        yield sending.started(signal, protocol, resource)


def _protocol(signal: Signal, environment: Mapping[str, str]) -> Protocol:
    names = (f"{_ALL}{signal.value}_PROTOCOL", f"{_ALL}PROTOCOL")
    name = next((name for name in names if environment.get(name)), "")
    if not name:
        return Protocol.GRPC
    try:
        return Protocol(environment[name])
    except ValueError:
        raise ConfigError(
            "telemetry.protocol",
            f"{signal.value.lower()} cannot be sent by {environment[name][:50]!r}",
            fix=f"Set {name} to grpc, which collectors take at port 4317, or to http/protobuf, "
            "which they take at 4318.",
            config_path=name,
        ) from None
