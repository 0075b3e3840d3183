"""How long calls take, as OpenTelemetry names it; nothing happens where nobody sends metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry import metrics

from penstock.model.errors import PenstockError

_DURATION: Final = metrics.get_meter("penstock").create_histogram(
    "rpc.server.call.duration", "s", "Duration of calls that were answered."
)


@contextmanager
def timed(method: str) -> Iterator[None]:
    """Measure a call while the body runs; an error is told by its code."""
    began, told = time.monotonic(), {"rpc.system.name": "grpc", "rpc.method": method}
    try:
        yield
    except PenstockError as error:
        told["error.type"] = error.code
        raise
    except Exception:
        told["error.type"] = "internal.unexpected"
        raise
    finally:
        _DURATION.record(time.monotonic() - began, told)
