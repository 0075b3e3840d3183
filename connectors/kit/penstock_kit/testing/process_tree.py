"""Processes of this machine by /proc, and the memory and CPU of a process tree.

A process that ends while it is read is left out; it is never an error. The kinds of a tree: the
root is the `driver`, a Java machine is `jvm`, children of a Java machine are Spark workers
(`spark`), the rest are `plugin`s.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """A process at one moment.

    `started` (ticks since boot) distinguishes it from a later process with its pid. `cpu` is in
    seconds and includes children that have ended and were waited for.
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
        """Pid and start time: unique on this machine."""
        return self.pid, self.started

    @property
    def program(self) -> str:
        """The name of its program file."""
        return Path(self.command[0]).name if self.command else ""

    def __str__(self) -> str:
        return f"{self.pid} ({self.state}) {' '.join(self.command)[:160]}"


def list_processes() -> dict[int, Process]:
    """Return all live processes by pid. Zombies are not live."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {process.pid: process for process in map(read_process, pids) if process is not None}


def read_process(pid: int) -> Process | None:
    """Return the process with a pid; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        command = _read_text(Path(f"/proc/{pid}/cmdline")).split("\0")
    except OSError:
        return None
    # the name in brackets may contain brackets and blanks: fields count from the last bracket
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


def list_tree(root: int, among: Mapping[int, Process] | None = None) -> list[Process]:
    """Return a process and its descendants, parents first."""
    live = list_processes() if among is None else among
    children: dict[int, list[Process]] = defaultdict(list)
    for process in live.values():
        children[process.parent].append(process)
    return list(_walk(live.get(root), children))


def find_processes(text: str) -> Iterator[Process]:
    """Yield the processes whose environment, command line or working folder contains `text`. These
    stay when a process outlives its parent and leaves the tree.
    """
    for pid, process in list_processes().items():
        if pid != os.getpid() and any(text in part for part in _texts(pid)):
            yield process


def _texts(pid: int) -> Iterable[str]:
    folder = Path(f"/proc/{pid}")
    with suppress(OSError):
        yield _read_text(folder / "environ")
    with suppress(OSError):
        yield _read_text(folder / "cmdline")
    with suppress(OSError):
        yield str((folder / "cwd").readlink())


def _read_text(file: Path) -> str:
    return file.read_bytes().decode("utf-8", errors="replace")


def _walk(root: Process | None, children: Mapping[int, list[Process]]) -> Iterator[Process]:
    queue = [root] if root else []
    while queue:
        process = queue.pop(0)
        yield process
        queue += children.get(process.pid, [])


MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of a process tree at one moment: bytes, CPU seconds and processes by kind.

    A page that several processes share is divided among them, so that the sum is what the machine
    would have free without them.
    """

    memory: dict[str, int] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)

    @property
    def total_memory(self) -> int:
        """Bytes in memory, of all kinds."""
        return sum(self.memory.values())

    @property
    def total_cpu(self) -> float:
        """CPU seconds since the start, of all kinds."""
        return sum(self.cpu.values())

    def __str__(self) -> str:
        parts = [f"{kind} {size / MIB:.0f} MiB" for kind, size in sorted(self.memory.items())]
        return f"{self.total_memory / MIB:.0f} MiB ({', '.join(parts)}), {self.total_cpu:.1f} s CPU"


def usage_of(root: int) -> Usage:
    """Return the use of a process and its descendants now."""
    tree = list_tree(root)
    return sum_usage(tree, {process.pid: _proportional_bytes(process) for process in tree})


def _proportional_bytes(process: Process) -> int:
    """Return the memory of a process, with its share of shared pages (PSS). It takes some ms."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:  # of another user, or it has just ended
        return process.rss
    found = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else process.rss


def sum_usage(processes: Iterable[Process], memory: Mapping[int, int]) -> Usage:
    """Return the use of a tree of processes; the first one is its root. `memory` has the bytes of
    each, by pid. Pure.
    """
    used: Counter[str] = Counter()
    count: Counter[str] = Counter()
    cpu: dict[str, float] = {}
    kinds: dict[int, str] = {}
    for process in processes:
        kind = _kind(process, kinds)
        kinds[process.pid] = kind
        used[kind] += memory[process.pid]
        count[kind] += 1
        cpu[kind] = cpu.get(kind, 0.0) + process.cpu
    return Usage(dict(used), cpu, dict(count))


def _kind(process: Process, kinds: dict[int, str]) -> str:
    if not kinds:
        return "driver"
    if process.program == "java":
        return "jvm"
    return "spark" if kinds.get(process.parent) in {"jvm", "spark"} else "plugin"
