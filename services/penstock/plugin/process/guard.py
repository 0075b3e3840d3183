"""The guard runs first in the process of a plugin, so that no orphan is left, and then executes it.

It runs as a script in isolated mode, with the standard library alone:

    python -I -S guard.py <pid of the host> <absolute command> [arguments…]

1. Have the kernel SIGKILL this process when the thread of the host that started it ends. This
   survives the exec, needs no help from the plugin, and works when the host ends by SIGKILL.
2. Leave a watcher outside the process group of the plugin. It waits, without CPU, for the end of
   this process and then kills what the plugin started, for example the child of a wrapper script.
3. Request that the kernel kills this process before its host when the machine runs out of memory.
4. Drop privileges that programs could gain: set-user-id programs and file capabilities have no
   effect for the plugin and what it starts.
5. Execute the plugin in this process.

These steps run after the exec and not in a `preexec_fn`, so that the host may use threads.
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
"""Half of the memory of the machine: the kernel treats the process as if it used that much more."""
_MAX_OOM_SCORE = 1000
_EX_NO_COMMAND = 127


def main(argv: list[str]) -> int:
    """Set up the guard and execute the command. Returns only when that failed."""
    host, command = int(argv[1]), argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != host:  # the host ended before prctl took effect
        return _EX_HOST_GONE
    _leave_watcher(os.getpid())
    _raise_oom_score()
    try:
        os.execv(command[0], command)  # noqa: S606 - the command comes from an installed manifest
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
    return _EX_NO_COMMAND


def _raise_oom_score() -> None:
    """Make the kernel kill the plugin, which ends its own tasks, before the host with all tasks."""
    path = "/proc/self/oom_score_adj"
    with contextlib.suppress(OSError, ValueError), open(path, "r+", encoding="ascii") as file:  # noqa: PTH123 - isolated mode: no more imports than needed
        score = min(int(file.read()) + _OOM_SCORE, _MAX_OOM_SCORE)
        file.seek(0)
        file.write(str(score))


def _leave_watcher(leader: int) -> None:
    """Fork twice, so that the watcher is not a child of the plugin."""
    pidfd = os.pidfd_open(leader)
    child = os.fork()
    if child:
        os.close(pidfd)
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork() == 0:
        _watch(pidfd, leader)
    os._exit(0)


def _erase_credential() -> None:
    """Erase the credential: processes of the same user can read the environment of the watcher."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    pointer = getenv(_CREDENTIAL)
    if pointer:
        ctypes.memset(pointer, ord("*"), len(ctypes.string_at(pointer)))


def _watch(pidfd: int, leader: int) -> None:
    _erase_credential()
    for stream in range(3):  # the host takes an open pipe for a running plugin
        os.close(stream)
    select.select([pidfd], [], [])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
