"""Bounds of the statuses of many tasks in one message (invariant 12)."""

from __future__ import annotations

from itertools import chain
from typing import Final

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.errors import Diagnostic
from penstock.wire.error import DIAGNOSTIC

_MAX_TEXT: Final = ((6 << 20, 2000), (8 << 20, 80))
"""(bytes of all diagnostics in one message, characters of each text). Up to 6 MiB a text has 2000
characters: enough to correct the error. Up to 8 MiB it has 80: enough to know the subject. Beyond,
only class and code are sent. The rest of the 16 MiB of a message is for the counters of more than
30,000 tasks."""

_MAX_METRICS_BYTES: Final = 1 << 20
"""Bytes of task metrics in one message, besides rows and bytes: those of more than 1,000 tasks with
the largest number of datasets."""

_FRAME_BYTES: Final = 4
"""Bytes of a nested message besides its fields: its tag and its length."""


class MessageBudget:
    """What is left of one message for the diagnostics and metrics of tasks."""

    def __init__(self) -> None:
        self._diagnostic_bytes = self._metrics_bytes = 0

    def cut_texts(self, diagnostic: Diagnostic | None) -> Diagnostic | None:
        """Return a diagnostic with its texts cut: later ones more than earlier ones."""
        if diagnostic is None:
            return None
        limit = next((chars for size, chars in _MAX_TEXT if self._diagnostic_bytes < size), 0)
        cut = diagnostic.map_texts(lambda text: _cut(text, limit))
        self._diagnostic_bytes += DIAGNOSTIC.to_proto(cut).ByteSize()
        return cut

    def limit_metrics(self, message: pb.TaskStatus) -> None:
        """Remove the metrics of a status that do not fit."""
        work = [message.work] if message.HasField("work") else []
        parts = chain(work, message.datasets, message.plugin_metrics)
        size = sum(one.ByteSize() + _FRAME_BYTES for one in parts)
        if self._metrics_bytes + size <= _MAX_METRICS_BYTES:
            self._metrics_bytes += size
            return
        message.datasets_left_out += len(message.datasets)
        for field in ("work", "datasets", "plugin_metrics"):
            message.ClearField(field)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…" if limit else ""
