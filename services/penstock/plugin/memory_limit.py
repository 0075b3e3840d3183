"""The memory of plugin processes without `plugin.memory.max`: half of what this process may use.

One plugin that leaks is killed with an error of its own, long before the machine or the container
runs out of memory, where the kernel would choose what ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MIN_LIMIT_BYTES: Final = 1 << 30
"""Smallest limit. A plugin with a JVM of its own takes half of that before it has a row."""


def default_memory_limit(root: Path = Path("/")) -> int:
    """Return half of the memory of the machine, or of the cgroup of this process if it is smaller,
    in bytes; at least 1 GiB. `root` is where `/proc` and `/sys` are.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(min([physical, *_cgroup_limits(root)]) // 2, MIN_LIMIT_BYTES)


def _cgroup_limits(root: Path) -> Iterator[int]:
    """Yield the limits of the cgroup of this process and of those above it (version 2), or of its
    container (version 1).
    """
    groups = root / "sys/fs/cgroup"
    files = [groups / "memory/memory.limit_in_bytes", groups / "memory.max"]
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            number, _, path = line.split(":", 2)
            if number == "0":  # version 2: one hierarchy for all
                own = groups / path.strip("/")
                within = (one for one in (own, *own.parents) if groups in one.parents)
                files += [one / "memory.max" for one in within]
    for file in files:
        with suppress(OSError, ValueError):  # there is none, or it says `max`
            yield int(file.read_text())
