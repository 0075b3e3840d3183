"""What this process uses of its machine, as OpenTelemetry's instruments ask for it."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

_STATM: Final = Path("/proc/self/statm")
_FILES: Final = Path("/proc/self/fd")
_PAGE: Final = resource.getpagesize()


def observe() -> None:
    """Have it measured whenever metrics are sent."""
    meter = metrics.get_meter("penstock")
    meter.create_observable_gauge("process.memory.usage", [_memory], "By", "Memory in use.")
    meter.create_observable_counter("process.cpu.time", [_cpu], "s", "Time of all cores.")
    meter.create_observable_gauge(
        "process.unix.file_descriptor.count", [_files], "{file_descriptor}", "Open files."
    )


def memory() -> int:
    """Return the bytes of memory that this process has in use."""
    return int(_STATM.read_text(encoding="ascii").split()[1]) * _PAGE


def _memory(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(memory())]


def _cpu(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(time.process_time())]


def _files(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(sum(1 for _ in _FILES.iterdir()))]
