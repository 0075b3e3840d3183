"""Where a reader is in a partition, and what happens when it cannot be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from penstock.model.connector import Partition
from penstock.model.errors import ConfigError, OffsetLostError
from penstock.topic.embedded.table import Window

Reset: TypeAlias = Literal["earliest", "latest", "fail"]
"""Where to start without an offset, or with one whose row is gone."""

UNKNOWN = -1


def read_reset(text: str) -> Reset:
    """Return where to start, as a person wrote it.

    Raises:
        ConfigError: `topic.bad_reset`.
    """
    if text not in get_args(Reset):
        raise ConfigError(
            "topic.bad_reset",
            f"`{text}` is not a place to start at",
            fix=f"Use one of {', '.join(get_args(Reset))}.",
            config_path="auto.offset.reset",
        )
    return cast("Reset", text)


@dataclass(slots=True, eq=False)
class Position:
    """A partition that is read. `next`: offset of the next row to announce. `end`: of the next row
    to be written, as last seen.
    """

    id: str
    topic: str
    number: int
    reset: Reset
    next: int = UNKNOWN
    end: int = 0

    @staticmethod
    def of(partition: Partition, reset: Reset) -> Position:
        """Return where a partition's offset says."""
        key, offset = partition.key, partition.offset
        start = int(offset["offset"]) if offset else UNKNOWN
        return Position(partition.id, str(key["topic"]), int(key["partition"]), reset, start)

    @property
    def behind(self) -> int:
        """Rows that wait to be announced, as last seen."""
        return 0 if self.next == UNKNOWN else max(0, self.end - self.next)

    def missing(self) -> bool:
        """Take note that there is no topic; True when that decided where to start: when it is made,
        all its rows are new.
        """
        if self.next != UNKNOWN or self.reset == "fail":
            return False
        self.next = 0
        return self.reset == "latest"

    def place(self, window: Window) -> int | None:
        """Go where reading is possible; returns how many rows are skipped for it, None when
        nothing had to be decided.

        Raises:
            OffsetLostError: `topic.offset_lost` (rule R14).
        """
        self.end = window.end
        return self._moved(window)

    def _moved(self, window: Window) -> int | None:
        first = window.files[0].base if window.files else window.end
        if self.next == UNKNOWN:
            if self.reset == "fail":
                raise self._lost("has no offset")
            self.next = window.low if self.reset == "earliest" else window.end
            return 0 if self.next else None
        if self.next > window.end:
            # a policy is about rows that went; this is another topic, or an older copy of it
            raise self._lost(f"ends at {window.end}, {self.next} was asked for")
        if self.next >= first:
            return None
        if self.reset == "fail":
            raise self._lost(f"has no row {self.next}, but {first} and later ones")
        wanted, self.next = self.next, first if self.reset == "earliest" else window.end
        return self.next - wanted

    def _lost(self, what: str) -> OffsetLostError:
        return OffsetLostError(
            "topic.offset_lost",
            f"partition {self.number} of topic {self.topic} {what}",
            fix="Reset the offset, or set `auto.offset.reset` to earliest or latest.",
            config_path="auto.offset.reset",
            dataset=self.topic,
        )
