"""The processes of this machine, as /proc tells them. A process that ends while it is read is not
there; it is never an error.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """A process at one moment. `started` (ticks since boot) tells it from a later one of its pid.

    `cpu` is in seconds and holds that of children that have ended and were waited for.
    """

    pid: int
    parent: int
    started: int
    state: str
    rss: int
    cpu: float
    command: tuple[str, ...]

    @property
    def identity(self) -> tuple[int, int]:
        """What no other process has."""
        return self.pid, self.started

    @property
    def program(self) -> str:
        """The name of its program file."""
        return Path(self.command[0]).name if self.command else ""

    def __str__(self) -> str:
        return f"{self.pid} ({self.state}) {' '.join(self.command)[:160]}"


def processes() -> dict[int, Process]:
    """Return all processes that are alive, by pid. Zombies are not alive."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {process.pid: process for process in map(process_of, pids) if process is not None}


def process_of(pid: int) -> Process | None:
    """Return the process with this pid, None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        command = _text(Path(f"/proc/{pid}/cmdline")).split("\0")
    except OSError:
        return None
    # The name in brackets may itself hold brackets and blanks: fields count from the last one.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in {"Z", "X"}:
        return None
    return Process(
        pid=pid,
        parent=int(fields[1]),
        started=int(fields[19]),
        state=fields[0],
        rss=int(fields[21]) * _PAGE,
        cpu=sum(map(int, fields[11:15])) / _TICK,
        command=tuple(part for part in command if part),
    )


def tree(root: int, among: Mapping[int, Process] | None = None) -> list[Process]:
    """Return a process and all that descend from it, parents first."""
    alive = processes() if among is None else among
    children: dict[int, list[Process]] = defaultdict(list)
    for process in alive.values():
        children[process.parent].append(process)
    return list(_walk(alive.get(root), children))


def marked(text: str) -> Iterator[Process]:
    """Yield the processes whose environment, command line or working folder names `text`.

    A process that outlives its parent leaves the tree, but not these.
    """
    for pid, process in processes().items():
        if pid != os.getpid() and any(text in part for part in _traces(pid)):
            yield process


def _traces(pid: int) -> Iterable[str]:
    folder = Path(f"/proc/{pid}")
    with suppress(OSError):
        yield _text(folder / "environ")
    with suppress(OSError):
        yield _text(folder / "cmdline")
    with suppress(OSError):
        yield str((folder / "cwd").readlink())


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8", errors="replace")


def _walk(root: Process | None, children: Mapping[int, list[Process]]) -> Iterator[Process]:
    queue = [root] if root else []
    while queue:
        process = queue.pop(0)
        yield process
        queue += children.get(process.pid, [])
