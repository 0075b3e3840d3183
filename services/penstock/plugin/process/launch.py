"""A plugin's process: a clean environment, a private folder, its own group, an end that is seen.

Linux: the end is seen through a pidfd, so no thread and no signal handler is needed, and the group
is killed while the leader's number is still taken, so no stranger is ever hit.
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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from penstock.model.errors import ConfigError, RetriableError
from penstock.plugin.installed import seal
from penstock.plugin.installed.manifest import SEARCH_PATH, Manifest
from penstock.plugin.process import guard
from penstock.plugin.process.handshake import PROTOCOL_VERSION

COOKIE: Final = "d0a9c8b7-penstock-plugin-v1"
"""A courtesy that tells a plugin that a host started it, not a person; it protects nothing."""

CREDENTIAL_KEY: Final = "penstock-credential"
"""gRPC metadata key of the credential that each launch makes anew."""

_HANDSHAKE_FILE: Final = "handshake"
_MOST_FOLDER_CHARACTERS: Final = 83
"""The kernel takes socket paths of 107 bytes; this leaves 23 for the name of the socket."""
_FOLDER_NAME: Final = re.compile(r"(\d+)-[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class Launch:
    """What is started, where, and with which variables."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    credential: str = field(repr=False)

    @property
    def handshake_file(self) -> Path:
        """Where the plugin may write its handshake instead of printing it."""
        return self.folder / _HANDSHAKE_FILE


def prepare(
    manifest: Manifest, runtime_dir: Path, telemetry: Mapping[str, str] | None = None
) -> Launch:
    """Make the private folder and the environment of a process.

    Nothing is inherited: what stands in the host's environment (its secrets too) is not there.
    Of `telemetry`, only names that begin with OTEL_ are given.

    Raises:
        ConfigError: `plugin.runtime_dir_too_long`, `plugin.command_not_found`.
    """
    argv = manifest.argv()
    folder = _private_folder(runtime_dir)
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
    if seal.is_sealed(manifest.folder):  # a swapped cache would be run instead of what is sealed
        environment["PYTHONPYCACHEPREFIX"] = str(folder / "pycache")
    return Launch(argv, environment, folder, credential)


def remove_folder(folder: Path) -> None:
    """Remove what a process left."""
    shutil.rmtree(folder, ignore_errors=True)


def sweep(runtime_dir: Path) -> int:
    """Remove the folders of hosts that are gone; return how many there were."""
    if not runtime_dir.is_dir():
        return 0
    dead = [f for f in runtime_dir.iterdir() if _host_is_gone(f.name)]
    for folder in dead:
        remove_folder(folder)
    return len(dead)


class Child:
    """A started process. Made by `spawn` in the loop that will own it; `exited` is its end.

    The thread that runs the loop must outlive the process: when it ends, the kernel kills it.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self.pid = process.pid
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._watched = os.pidfd_open(self.pid)
        self._loop.add_reader(self._watched, self._reap)
        self._pipes: list[asyncio.ReadTransport] = []

    @staticmethod
    def spawn(launch: Launch) -> Child:
        """Start the command, as the leader of a session of its own.

        Raises:
            RetriableError: `plugin.not_started`.
        """
        argv = (sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), *launch.argv)
        try:
            process = subprocess.Popen(
                argv,
                env=dict(launch.environment),
                # the folder of the host stays the working folder: a relative path in a
                # configuration means what the user who wrote it expects
                stdin=subprocess.PIPE,  # held open: its end tells the plugin that the host is gone
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise RetriableError(
                "plugin.not_started",
                f"{launch.argv[0]} could not be started: {error.strerror}",
                fix="Look at the limits of this machine: processes, memory, open files.",
            ) from None
        return Child(process)

    async def stdout(self) -> asyncio.StreamReader:
        """Return the reader of stdout; call once."""
        return await self._reader(self._process.stdout)

    async def stderr(self) -> asyncio.StreamReader:
        """Return the reader of stderr; call once."""
        return await self._reader(self._process.stderr)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return not self.exited.done()

    async def ended(self, within: float) -> bool:
        """Wait for the end, `within` seconds at most; tell whether it came."""
        await asyncio.wait([self.exited], timeout=max(0.0, within))
        return self.exited.done()

    def close_stdin(self) -> None:
        """Tell the process that its host is gone."""
        if self._process.stdin:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and all that it started, while it has not been reaped."""
        if self.alive:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def close(self) -> None:
        """Let go of the pipes, also of those that something else holds open."""
        for pipe in self._pipes:
            pipe.close()

    async def _reader(self, pipe: IO[bytes] | None) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        transport, _ = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._pipes.append(transport)
        return reader

    def _reap(self) -> None:
        self._loop.remove_reader(self._watched)
        os.close(self._watched)
        # The leader is a zombie now: its group's number cannot be anyone else's yet.
        self.signal_group(signal.SIGKILL)
        code = self._process.wait()
        self.close_stdin()
        if not self.exited.done():
            self.exited.set_result(code)


def how_it_ended(code: int) -> str:
    """Return an exit code in words."""
    if code >= 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"was ended by signal {name}"


def _private_folder(runtime_dir: Path) -> Path:
    folder = runtime_dir.resolve() / f"{os.getpid()}-{secrets.token_hex(3)}"
    if len(os.fsencode(folder)) > _MOST_FOLDER_CHARACTERS:
        raise ConfigError(
            "plugin.runtime_dir_too_long",
            f"{runtime_dir} is too long for the unix sockets of plugins",
            fix="Choose a folder for run-time files whose path has at most "
            f"{_MOST_FOLDER_CHARACTERS - 15} characters.",
        )
    runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    return folder


def _host_is_gone(name: str) -> bool:
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
