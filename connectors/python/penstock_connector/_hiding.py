"""What other processes of the same user see of this one: not its memory, not its credential.

A plugin that another one could read would give away the secrets of its connectors, and the
credential by which its host is known. The kernel forgets this at each exec, so a host cannot do it
for a plugin.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

INSPECTABLE: Final = "PENSTOCK_INSPECTABLE"
"""A host that counts what a plugin holds, or a person with a debugger, sets this to 1."""

_PR_SET_DUMPABLE: Final = 4


def hide_memory() -> None:
    """Keep others of the same user from this process: no debugger, no `/proc/…/environ` and
    `/proc/…/fd`, no core dump. Linux alone; elsewhere nothing is done.
    """
    if sys.platform == "linux" and os.environ.get(INSPECTABLE) != "1":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def erase_variable(name: str) -> None:
    """Take a variable out of the environment, and its value out of what the kernel shows of it."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    place = getenv(name.encode())
    if place:
        ctypes.memset(place, ord("*"), len(ctypes.string_at(place)))
    os.environ.pop(name, None)
