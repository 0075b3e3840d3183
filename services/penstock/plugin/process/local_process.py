"""A plugin process on this machine: its launch, its end, its memory limit.

- `prepare_launch`: a private folder and a clean environment
- `ChildProcess`: the started process, leader of its own process group
- `LocalProcess`: the process with its log, handshake and memory limit
- `watch_memory`: the memory of a process and its descendants

Linux only. A pidfd reports the end, without a thread or a signal handler. The process group is
killed before the leader is reaped: until then the kernel cannot give its number to another process.

Memory is measured from outside, because no kernel limit fits: RLIMIT_AS and RLIMIT_DATA count what
a runtime reserves (Go, V8 and Arrow reserve gigabytes that they never touch), and a memory cgroup
needs rights that a worker seldom has. Only private memory counts: not libraries and mapped files,
which the kernel may drop.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from penstock.aio import cancel_and_wait
from penstock.model.errors import ConfigError, PenstockError, RetriableError
from penstock.plugin import errors
from penstock.plugin.catalog import seal
from penstock.plugin.catalog.manifest import SEARCH_PATH, Manifest
from penstock.plugin.process import guard
from penstock.plugin.process.handshake import PROTOCOL_VERSION, HandshakeScanner
from penstock.plugin.process.logs import LineBuffer, PluginLog, forward

COOKIE: Final = "d0a9c8b7-penstock-plugin-v1"
"""Lets a plugin detect that a host started it and not a user. It protects nothing."""

_HANDSHAKE_FILE: Final = "handshake"
_MAX_FOLDER_CHARACTERS: Final = 83
"""The kernel takes socket paths of 107 bytes; this leaves 23 for the name of the socket."""
_FOLDER_NAME: Final = re.compile(r"(\d+)-[0-9a-f]{6}")

_TERM_GRACE_S: Final = 1.0
"""Time from SIGTERM to SIGKILL, after a Shutdown that was not followed. A longer time delays the
end of the host; a shorter one cuts the last log lines of a slow plugin."""
_DRAIN_TIMEOUT_S: Final = 1.0
"""Time to read the pipes of a process that ended."""

_MAX_GROWTH: Final = 2 << 30
"""Bytes per second by which a process can grow: a core writes about this to fresh pages. The next
check is due when the rest of the limit can be full. A larger figure costs CPU; with a smaller one a
plugin grows further beyond its limit."""
_MIN_CHECK_DELAY_S: Final = 0.02
_MAX_CHECK_DELAY_S: Final = 1.0
_MAX_PROCESSES: Final = 1_000
_PROC: Final = Path("/proc")
_MEMORY_FILE: Final = "/memfd:"
_PRIVATE: Final = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """The command, environment and private folder of a process."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    credential: str = field(repr=False)

    @property
    def handshake_file(self) -> Path:
        """Where the plugin may write its handshake instead of printing it."""
        return self.folder / _HANDSHAKE_FILE


def prepare_launch(
    manifest: Manifest, runtime_dir: Path, telemetry: Mapping[str, str] | None = None
) -> LaunchSpec:
    """Create the private folder and the environment of a process.

    The environment of the host, which may hold secrets, is not inherited. Of `telemetry`, only
    names that begin with OTEL_ are passed.

    Raises:
        ConfigError: `plugin.runtime_dir_too_long`, `plugin.command_not_found`.
    """
    argv = manifest.resolve_command()
    folder = _create_private_folder(runtime_dir)
    credential = secrets.token_urlsafe(24)
    environment = {
        "PENSTOCK_PLUGIN_MAGIC_COOKIE": COOKIE,
        "PLUGIN_PROTOCOL_VERSIONS": str(PROTOCOL_VERSION),
        "PLUGIN_UNIX_SOCKET_DIR": str(folder),
        "PENSTOCK_HANDSHAKE_FILE": str(folder / _HANDSHAKE_FILE),
        "PENSTOCK_INSTANCE_NONCE": credential,
        "PATH": SEARCH_PATH,
        "LANG": "C.UTF-8",
        **{k: v for k, v in (telemetry or {}).items() if k.startswith("OTEL_")},
    }
    if seal.is_sealed(manifest.folder):  # Python would run a replaced cache, not the sealed source
        environment["PYTHONPYCACHEPREFIX"] = str(folder / "pycache")
    return LaunchSpec(argv, environment, folder, credential)


def remove_folder(folder: Path) -> None:
    """Remove the private folder of a process that ended."""
    shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders(runtime_dir: Path) -> int:
    """Remove the folders of hosts that no longer run; return how many there were."""
    if not runtime_dir.is_dir():
        return 0
    stale = [f for f in runtime_dir.iterdir() if _is_stale(f.name)]
    for folder in stale:
        remove_folder(folder)
    return len(stale)


def _create_private_folder(runtime_dir: Path) -> Path:
    folder = runtime_dir.resolve() / f"{os.getpid()}-{secrets.token_hex(3)}"
    if len(os.fsencode(folder)) > _MAX_FOLDER_CHARACTERS:
        raise ConfigError(
            "plugin.runtime_dir_too_long",
            f"the path {runtime_dir} is too long for the unix sockets of plugins",
            fix="Choose a folder for run-time files whose path has at most "
            f"{_MAX_FOLDER_CHARACTERS - 15} characters.",
        )
    runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    return folder


def _is_stale(name: str) -> bool:
    match = _FOLDER_NAME.fullmatch(name)
    if match is None:
        return False
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


class ChildProcess:
    """A started process. Create it by `spawn` in the loop that owns it; `exited` is its end.

    The thread that runs the loop must outlive the process: the kernel kills the process when the
    thread ends.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self.pid = process.pid
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._reap)
        self._pipes: list[asyncio.ReadTransport] = []

    @staticmethod
    def spawn(launch: LaunchSpec) -> ChildProcess:
        """Start the command as the leader of a new session.

        Raises:
            RetriableError: `plugin.not_started`.
        """
        argv = (sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), *launch.argv)
        try:
            process = subprocess.Popen(
                argv,
                env=dict(launch.environment),
                # the working folder stays that of the host, so that a relative path in a
                # configuration means what its user expects
                stdin=subprocess.PIPE,  # held open: its end signals that the host ended
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise RetriableError(
                "plugin.not_started",
                f"{launch.argv[0]} could not be started: {error.strerror}",
                fix="Check the limits of this machine: processes, memory, open files.",
            ) from None
        return ChildProcess(process)

    async def stdout(self) -> asyncio.StreamReader:
        """Return the reader of stdout; call once."""
        return await self._open_reader(self._process.stdout)

    async def stderr(self) -> asyncio.StreamReader:
        """Return the reader of stderr; call once."""
        return await self._open_reader(self._process.stderr)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return not self.exited.done()

    async def wait_for_exit(self, timeout_s: float) -> bool:
        """Wait for the end, at most `timeout_s`; return whether the process has ended."""
        await asyncio.wait([self.exited], timeout=max(0.0, timeout_s))
        return self.exited.done()

    def close_stdin(self) -> None:
        """Close stdin: the signal for the process that its host ended."""
        if self._process.stdin:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and its group, as long as it has not been reaped."""
        if self.alive:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def close(self) -> None:
        """Close the pipes, even when a descendant still holds them open."""
        for pipe in self._pipes:
            pipe.close()

    async def _open_reader(self, pipe: IO[bytes] | None) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        transport, _ = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._pipes.append(transport)
        return reader

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        # The leader is a zombie now, so no other process can have the number of its group yet.
        self.signal_group(signal.SIGKILL)
        code = self._process.wait()
        self.close_stdin()
        if not self.exited.done():
            self.exited.set_result(code)


def describe_exit(code: int) -> str:
    """Return an exit code in words."""
    if code >= 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"was ended by signal {name}"


class LocalProcess:
    """A plugin process with its two pipes. `name` is `plugin/connector`."""

    def __init__(self, name: str, child: ChildProcess, folder: Path, log: PluginLog) -> None:
        self.name, self.child, self.folder, self.log = name, child, folder, log
        self.exited = child.exited
        self.scanner = HandshakeScanner()
        self.stdout_buffer = LineBuffer()
        self.kill_reason: PenstockError | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._memory_watch: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The process; its process group has the same number."""
        return self.child.pid

    async def wait_for_exit(self, timeout_s: float) -> bool:
        """Wait for the end, at most `timeout_s`; return whether the process has ended."""
        return await self.child.wait_for_exit(timeout_s)

    def exit_error(self) -> PenstockError | None:
        """Return why the process ended; None while it runs."""
        if not self.exited.done():
            return None
        how = describe_exit(self.exited.result())
        return self.kill_reason or errors.process_crashed(self.name, how, self.log.tail)

    def limit_memory(self, max_bytes: int) -> None:
        """Kill the process group when it keeps more than `max_bytes`; 0: unlimited."""
        if max_bytes:
            self._memory_watch = asyncio.create_task(
                watch_memory(self.pid, max_bytes, lambda used: self._kill(max_bytes, used))
            )

    async def read_output(self) -> None:
        """Start to read what the process prints."""
        stdout, stderr = await self.child.stdout(), await self.child.stderr()
        self._readers = [
            asyncio.create_task(forward(stdout, self.stdout_buffer, self._take_stdout_line)),
            asyncio.create_task(forward(stderr, LineBuffer(), self.log.line)),
        ]

    async def drain_output(self) -> None:
        """Wait for the last lines of a process that ended."""
        if self._readers:
            await asyncio.wait(self._readers, timeout=_DRAIN_TIMEOUT_S)

    async def terminate(self) -> None:
        """End the process group, by SIGKILL when SIGTERM is not followed, and clean up."""
        if self._memory_watch:
            self._memory_watch.cancel()
        self.child.close_stdin()
        self.child.signal_group(signal.SIGTERM)
        if not await self.child.wait_for_exit(_TERM_GRACE_S):
            self.child.signal_group(signal.SIGKILL)
            await self.child.exited
        await self.drain_output()
        await cancel_and_wait(*self._readers)
        self.log.report_dropped()
        self.child.close()
        remove_folder(self.folder)

    def _kill(self, max_bytes: int, used: int) -> None:
        self.kill_reason = memory_exceeded(self.name, max_bytes, used)
        self.child.signal_group(signal.SIGKILL)

    def _take_stdout_line(self, raw: bytes) -> None:
        if self.scanner.result.done() or not self.scanner.scan(raw.decode("utf-8", "replace")):
            self.log.line(raw)


def measure_memory(pid: int) -> int:
    """Return the bytes that a process and its descendants keep."""
    return sum(_private_bytes(one) for one in _descendants(pid))


def next_check_delay(limit: int, used: int) -> float:
    """Return the seconds until the memory is measured again."""
    return min(max((limit - used) / _MAX_GROWTH, _MIN_CHECK_DELAY_S), _MAX_CHECK_DELAY_S)


async def watch_memory(pid: int, limit: int, on_exceeded: Callable[[int], None]) -> None:
    """Call `on_exceeded` once, with the bytes in use, when they are more than `limit`."""
    used = measure_memory(pid)
    while used <= limit:
        await asyncio.sleep(next_check_delay(limit, used))
        used = measure_memory(pid)
    on_exceeded(used)


def memory_exceeded(name: str, limit: int, used: int) -> PenstockError:
    """Return the error for a plugin that was killed for its memory."""
    return RetriableError(
        "plugin.memory_exceeded",
        f"plugin {name} was killed: it had {used >> 20} MiB of memory, {limit >> 20} MiB are "
        "allowed",
        config_path="plugin.memory.max",
        fix="Let the connector hold less (`credit.bytes`, fewer tasks), or raise "
        "`plugin.memory.max` of the worker.",
    )


def _descendants(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, at most `_MAX_PROCESSES`: a group may fork forever."""
    pending = [pid]
    for _ in range(_MAX_PROCESSES):
        if not pending:
            return
        one = pending.pop()
        yield one
        pending += _children(one)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # the process ended meanwhile
        for thread in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError):  # or one of its threads
                found += map(int, (thread / "children").read_text().split())
    return found


def _private_bytes(pid: int) -> int:
    try:
        status = (_PROC / str(pid) / "status").read_bytes()
    except OSError:
        return 0
    return sum(int(kib) << 10 for kib in _PRIVATE.findall(status)) + _memory_file_bytes(pid)


def _memory_file_bytes(pid: int) -> int:
    """Return the bytes of the memory files that a process holds: its status does not have them."""
    found = 0
    with suppress(OSError):  # the process has ended
        for file in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):  # or has closed it
                if str(file.readlink()).startswith(_MEMORY_FILE):
                    found += file.stat().st_size
    return found
