"""The file of the verifiable sink: append-only, a transaction at a time, fenced by epoch.

A transaction is one or more lines; the last of them says `"end": true`. A transaction without its
end was cut short by a crash: the next writer takes it away before it writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from penstock_connector import ConfigError, FencedError, RetriableError

_LOCKED_WITHIN: Final = 10.0
"""Seconds to wait for another task's append, which takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Last:
    """The last transaction of a task in its ledger. Serial 0: there is none."""

    serial: int = 0
    txn: int = 0
    epoch: int = 0
    token: str = ""


class Ledger:
    """The ledger, as one task at one epoch sees it.

    Attributes:
        path: The file.
        last: This task's last transaction in it.
    """

    def __init__(self, place: str, task_id: str, epoch: int) -> None:
        named = quote(task_id, safe="")
        path = Path(place)
        self.path = path if path.suffix else path / f"{named}.jsonl"
        self.last = Last()
        self._task, self._epoch = task_id, epoch
        self._fence = self.path.with_name(f".{self.path.name}.{named}.epoch")
        self._lock = self.path.with_name(f".{self.path.name}.lock")

    def claim(self) -> None:
        """Fence older epochs of the task (invariant 4), and see how far it came.

        Raises:
            FencedError: `verifiable.fenced`: this epoch is the older one.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._refuse_older()
            new = self._fence.with_suffix(".new")
            new.write_text(str(self._epoch), encoding="ascii")
            new.replace(self._fence)
            self._heal()
            self.last = self._find_last()

    def append(
        self, lines: Sequence[Mapping[str, Any]], serial: int, token: str, *, once: bool
    ) -> None:
        """Append a transaction durably; with `once`, only when it is not there yet."""
        if once and serial <= self.last.serial:
            return
        now = time.monotonic_ns()
        ended = [{**line, "mono_ns": now} for line in lines]
        ended[-1] |= {"serial": serial, "token": token, "end": True}
        data = "".join(json.dumps(line) + "\n" for line in ended).encode()
        with self._locked():
            self._refuse_older()
            self._heal()
            with self.path.open("ab", buffering=0) as file:
                file.write(data)
                os.fdatasync(file.fileno())
        self.last = _last_of(ended[-1])

    def _refuse_older(self) -> None:
        try:
            newest = int(self._fence.read_text(encoding="ascii"))
        except FileNotFoundError:
            return
        if newest > self._epoch:
            raise FencedError(
                "verifiable.fenced",
                f"epoch {newest} of task {self._task} writes here now, not {self._epoch}",
            )

    def _heal(self) -> None:
        """Take away a transaction that was cut short: nobody was told that it is there."""
        if not self.path.exists():
            return
        with self.path.open("r+b") as file:
            end = size = file.seek(0, os.SEEK_END)
            for start, line in _backwards(file.fileno(), size):
                if line.endswith(b"\n") and _parsed(line, self.path).get("end"):
                    break
                end = start
            if end < size:
                file.truncate(end)

    def _find_last(self) -> Last:
        if not self.path.exists():
            return Last()
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _, line in _backwards(fd, os.fstat(fd).st_size):
                fields = _parsed(line, self.path)
                if fields.get("end") and fields["task"] == self._task:
                    return _last_of(fields)
        finally:
            os.close(fd)
        return Last()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + _LOCKED_WITHIN
        with self._lock.open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise RetriableError(
                            "verifiable.locked",
                            f"lock: {self.path} was not free for {_LOCKED_WITHIN:g} s",
                        ) from None
                    time.sleep(0.002)
            yield


def _last_of(fields: Mapping[str, Any]) -> Last:
    return Last(fields["serial"], fields["txn"], fields["epoch"], fields["token"])


def _backwards(fd: int, size: int, block: int = 1 << 16) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their places, last first."""
    rest, at = b"", size
    while at > 0:
        start = max(at - block, 0)
        rest = os.pread(fd, at - start, start) + rest
        at = start
        # What stands before the first newline may have begun in an earlier block.
        keep = rest.find(b"\n") + 1 if at else 0
        if at and not keep:
            continue
        place = at + len(rest)
        for line in reversed(rest[keep:].splitlines(keepends=True)):
            place -= len(line)
            yield place, line
        rest = rest[:keep]


def _parsed(line: bytes, path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ConfigError(
            "verifiable.not_a_ledger",
            f"{path} has lines that no verifiable sink wrote",
            fix="Name a file of its own.",
            config_path="ledger",
        )
    return fields
