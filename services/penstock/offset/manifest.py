"""The record of a generation that every write of its offsets depends on. Pure.

- `floor`     the newest dead epoch: a person altered offsets after it (invariant 4)
- `top`       the newest epoch that claimed a task: nothing older than it may be the newest owner
              of everything, so only an older epoch has to look at who wrote each partition
- `line`      where offsets are: a reset or a rewind makes a new line and flips this pointer
- `journals`  commits that are durable and visible, and not yet part of the line
- `building`  the line of a reset or rewind under way: not visible
- `dead`      lines that nobody reads any more, to be swept
- `gone`      the connector is deleted and its offsets are forgotten: all of it is to be swept
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

NEVER = 2**64 - 1
"""An epoch that nobody gets."""

FIRST_LINE = ""
"""The line that a generation begins with."""


@dataclass(frozen=True, slots=True)
class Head:
    """How the offsets of a generation stand."""

    floor: int = 0
    top: int = 0
    line: str = FIRST_LINE
    journals: tuple[str, ...] = ()
    building: str = ""
    dead: tuple[str, ...] = ()
    gone: bool = False

    @property
    def busy(self) -> bool:
        """Whether there is something to fold or to sweep."""
        return bool(self.journals or self.dead or self.gone)


def raised(head: Head, epoch: int) -> Head:
    """Return the head after a claim; the same object when it has seen the epoch.

    Whoever claims has started the connector: a reset or rewind under way loses its ground.
    """
    return abandoned(replace(head, top=epoch)) if epoch > head.top else head


def fenced(head: Head, floor: int) -> Head:
    """Return the head after which no epoch up to `floor` may write."""
    floor = max(floor, head.floor, head.top)
    return abandoned(replace(head, floor=floor, top=floor))


def journaled(head: Head, journal: str) -> Head:
    """Return the head with one journal more that counts."""
    return replace(head, journals=(*head.journals, journal))


def building(head: Head, line: str) -> Head:
    """Return a head that is fenced, while a new line is made."""
    return replace(head, building=line)


def flipped(head: Head) -> Head:
    """Return the head after which the new line is the one that counts."""
    return replace(head, line=head.building, building="", dead=(*head.dead, head.line))


def forgotten(head: Head) -> Head:
    """Return the head of a generation that is to be swept: nobody may claim it meanwhile."""
    return replace(head, floor=NEVER, top=NEVER, gone=True)


def abandoned(head: Head) -> Head:
    """Return the head after a reset or rewind was given up; the same object without one."""
    if not head.building:
        return head
    return replace(head, building="", dead=(*head.dead, head.building))


def encode(head: Head) -> bytes:
    """Return the stored form."""
    return json.dumps(asdict(head), separators=(",", ":")).encode()


def decode(value: bytes) -> Head:
    """Return a head. It was once the floor alone, as a number."""
    document: Any = json.loads(value)
    if isinstance(document, int):
        return Head(floor=document, top=document)
    lists = {name: tuple(document[name]) for name in ("journals", "dead")}
    return Head(**{**document, **lists})
