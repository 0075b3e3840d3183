"""Memory and CPU of a process tree, by kind of process.

The kind follows from who started it: the root is the `driver`, a Java machine is `jvm`, what a Java
machine started is a Spark worker (`spark`), the rest are `plugin`s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from penstock.testing.procfs import Process, tree

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process tree uses at one moment: bytes, seconds and processes by kind.

    Shared pages count for each process that has them, so the sum is an upper bound.
    """

    rss: dict[str, int] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)

    @property
    def total_rss(self) -> int:
        """Bytes in memory, all kinds."""
        return sum(self.rss.values())

    @property
    def total_cpu(self) -> float:
        """CPU seconds since the start, all kinds."""
        return sum(self.cpu.values())

    def __str__(self) -> str:
        parts = [f"{kind} {size / MIB:.0f} MiB" for kind, size in sorted(self.rss.items())]
        return f"{self.total_rss / MIB:.0f} MiB ({', '.join(parts)}), {self.total_cpu:.1f} s CPU"


def usage_of(root: int) -> Usage:
    """Return what the process `root` and all its descendants use now."""
    return usage(tree(root))


def usage(family: Iterable[Process]) -> Usage:
    """Return what a family of processes uses; the first is its root. Pure."""
    rss: Counter[str] = Counter()
    count: Counter[str] = Counter()
    cpu: dict[str, float] = {}
    kinds: dict[int, str] = {}
    for process in family:
        kind = _kind(process, kinds)
        kinds[process.pid] = kind
        rss[kind] += process.rss
        count[kind] += 1
        cpu[kind] = cpu.get(kind, 0.0) + process.cpu
    return Usage(dict(rss), cpu, dict(count))


def _kind(process: Process, kinds: dict[int, str]) -> str:
    if not kinds:
        return "driver"
    if process.program == "java":
        return "jvm"
    return "spark" if kinds.get(process.parent) in {"jvm", "spark"} else "plugin"
