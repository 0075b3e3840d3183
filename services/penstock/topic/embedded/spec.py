"""What a topic was made with: kept as JSON in the description of its table, where people find it.

Delta's table properties would be the place, but tools refuse properties that they do not know.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Retention:
    """How long rows are kept. 0 means for ever. `seconds` since they were committed; `bytes` of a
    topic's partition.
    """

    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """Partitions, key columns of the rows, and a retention of its own (None: that of all)."""

    partitions: int = 1
    key_columns: tuple[str, ...] = ()
    retention: Retention | None = field(default=None)

    def to_text(self) -> str:
        """Return the description of the table."""
        fields: dict[str, Any] = {"partitions": self.partitions, "key_columns": self.key_columns}
        if self.retention is not None:
            fields["retention_seconds"] = self.retention.seconds
            fields["retention_bytes"] = self.retention.bytes
        return json.dumps(fields)

    @staticmethod
    def from_text(text: str | None) -> TopicSpec:
        """Return what a description says; the default for one that a person wrote over."""
        try:
            fields = json.loads(text or "{}")
            partitions = int(fields.get("partitions", 1))
            keys = tuple(map(str, fields.get("key_columns", ())))
            kept = [float(fields.get(f"retention_{what}", 0)) for what in ("seconds", "bytes")]
        except (ValueError, TypeError, AttributeError):
            return TopicSpec()
        own = Retention(kept[0], int(kept[1])) if "retention_seconds" in fields else None
        return TopicSpec(max(1, partitions), keys, own)
