"""The first program in a plugin's process: it sees to it that no orphan is left, then becomes the
plugin.

Run as a script in isolated mode, with the standard library alone:

    python -I -S guard.py <pid of the host> <absolute command> [arguments…]

1. The kernel is asked to SIGKILL this process when the host's thread that started it ends. That
   survives the exec, needs no help from the plugin, and works when the host dies by SIGKILL.
2. A watcher is left behind, outside the plugin's process group. It waits (no CPU) for the end of
   this process, then kills what the plugin started: a wrapper script's child does not stay either.
3. The kernel is told to take this process before its host when the machine is out of memory.
4. Nothing that the plugin starts gets more rights than it has: no set-user-id program, no file
   capabilities.
5. This process becomes the plugin.

Doing this after the exec and not in a `preexec_fn` keeps the host free to use threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CREDENTIAL = b"PENSTOCK_INSTANCE_NONCE"
_EX_HOST_GONE = 75
_OOM_SCORE = 500
"""Half of the machine's memory: as if it had that much more."""
_MOST_OOM_SCORE = 1000
_EX_NO_COMMAND = 127


def main(argv: list[str]) -> int:
    """Guard, then become the command. Returns only when that was not possible."""
    host, command = int(argv[1]), argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != host:  # it died before the kernel knew
        return _EX_HOST_GONE
    _leave_watcher(os.getpid())
    _be_first_to_go()
    try:
        os.execv(command[0], command)  # noqa: S606 - the command comes from an installed manifest
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
    return _EX_NO_COMMAND


def _be_first_to_go() -> None:
    """A host that the kernel ends takes all its tasks along; a plugin takes its own."""
    path = "/proc/self/oom_score_adj"
    with contextlib.suppress(OSError, ValueError), open(path, "r+", encoding="ascii") as file:  # noqa: PTH123 - isolated mode: no more imports than needed
        score = min(int(file.read()) + _OOM_SCORE, _MOST_OOM_SCORE)
        file.seek(0)
        file.write(str(score))


def _leave_watcher(leader: int) -> None:
    """Fork twice, so that the plugin has no child that it does not know."""
    watched = os.pidfd_open(leader)
    child = os.fork()
    if child:
        os.close(watched)
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork() == 0:
        _watch(watched, leader)
    os._exit(0)


def _erase_credential() -> None:
    """Others of the same user see the environment of this process as long as it waits."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    place = getenv(_CREDENTIAL)
    if place:
        ctypes.memset(place, ord("*"), len(ctypes.string_at(place)))


def _watch(watched: int, leader: int) -> None:
    _erase_credential()
    for stream in range(3):  # an open pipe would look to the host like a living plugin
        os.close(stream)
    select.select([watched], [], [])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
