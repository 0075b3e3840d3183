"""What a transaction will do to which file: decided when it is prepared, stored by the host, done
when it is committed. Pure.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock_builtin.file_sink.place import Place
from penstock_builtin.file_sink.sheet import Part


@dataclass(frozen=True, slots=True)
class Write:
    """Staged files that become the end of a file, or a file of their own.

    Attributes:
        folder: Path of the target's folder.
        target: Name of the target.
        single: The place is this one file, not a folder of files.
        before: The target's length before.
        head: What begins the file; only written when it is new.
        parts: Names and sizes of the staged files, in order.
        sub: The folder in the place that the target is in; empty for the place itself.
    """

    folder: str
    target: str
    single: bool
    before: int
    head: bytes
    parts: tuple[tuple[str, int], ...]
    sub: str = ""

    @property
    def path(self) -> str:
        """The target in the place."""
        return f"{self.sub}/{self.target}" if self.sub else self.target

    @property
    def after(self) -> int:
        """The target's length after."""
        return self.before + len(self.start) + sum(size for _, size in self.parts)

    @property
    def start(self) -> bytes:
        """The head, when it has to be written."""
        return b"" if self.before else self.head

    @property
    def renames(self) -> bool:
        """One staged file is the whole target: it only needs its name."""
        return not self.before and not self.head and len(self.parts) == 1


def write_of(place: Place, name: str, before: int, parts: Sequence[Part]) -> Write:
    """Return the write that makes parts the end of a file, by its path in the place."""
    sub, _, target = name.rpartition("/")
    return Write(
        folder=place.path,
        target=target,
        sub=sub,
        single=bool(place.name),
        before=before,
        head=parts[0].head,
        parts=tuple((part.name, part.size) for part in parts),
    )


def encode_state(writes: Iterable[Write]) -> bytes:
    """Return writes as the state of a transaction."""
    listed = [
        [
            write.folder,
            write.target,
            write.single,
            write.before,
            base64.b64encode(write.head).decode(),
            [list(part) for part in write.parts],
            *([write.sub] if write.sub else []),
        ]
        for write in writes
    ]
    return json.dumps({"version": 1, "writes": listed}, separators=(",", ":")).encode()


def decode_state(state: bytes) -> list[Write]:
    """Return the writes of a state."""
    return [
        Write(
            folder=folder,
            target=target,
            single=single,
            before=before,
            head=base64.b64decode(head),
            parts=tuple((name, size) for name, size in parts),
            sub=sub[0] if sub else "",
        )
        for folder, target, single, before, head, parts, *sub in json.loads(state)["writes"]
    ]


@dataclass(frozen=True, slots=True)
class Rolling:
    """The file of a folder that is appended to now."""

    name: str
    head: bytes
    size: int = 0
    rows: int = 0
    since: float = 0.0

    def with_part(self, part: Part) -> Rolling:
        """Return the file with a part at its end."""
        start = 0 if self.size else len(self.head)
        size = self.size + start + part.size
        return replace(self, size=size, rows=self.rows + part.rows)


@dataclass(frozen=True, slots=True)
class RollingRules:
    """When a new file begins. 0 holds nothing back."""

    rows: int = 0
    bytes: int = 0
    interval: float = 0.0

    def is_full(self, current: Rolling, part: Part, now: float) -> bool:
        """Return whether a part has to go to a new file."""
        return bool(
            part.head != current.head
            or (self.rows and current.rows + part.rows > self.rows)
            or (self.bytes and current.size >= self.bytes)
            or (self.interval and now - current.since >= self.interval)
        )


def roll(
    parts: Sequence[Part],
    current: Rolling | None,
    rules: RollingRules,
    names: Iterator[str],
    now: float,
) -> list[tuple[Rolling, int, list[Part]]]:
    """Spread parts over files: each file as it is afterwards, its length before, and its parts.

    Args:
        parts: In order.
        current: The file so far, if it may be appended to.
        rules: When a file is full.
        names: Names for new files.
        now: Monotonic seconds.
    """
    plans: list[tuple[Rolling, int, list[Part]]] = []
    for part in parts:
        if current is None or rules.is_full(current, part, now):
            current = Rolling(next(names), part.head, since=now)
        if not plans or plans[-1][0].name != current.name:
            plans.append((current, current.size, []))
        _, before, some = plans[-1]
        some.append(part)
        current = current.with_part(part)
        plans[-1] = current, before, some
    return plans
