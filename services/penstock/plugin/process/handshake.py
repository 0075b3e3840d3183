"""The handshake: one line in which a plugin names its socket, `1|1|unix|/dir/s|grpc|<certificate>`.

`parse_handshake` and `dial_address` are pure; `wait_for_handshake` waits. The line may stand
anywhere in stdout, also after text without a newline, or in the handshake file. The first line that
matches counts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.aio import run_together, wait_for_first
from penstock.model.errors import InternalError, PenstockError, RetriableError
from penstock.plugin.errors import escape_text

CORE_VERSION: Final = 1
PROTOCOL_VERSION: Final = 1

_LINE: Final = re.compile(
    r"(?<!\d)(\d{1,9})\|(\d{1,9})\|(unix|tcp)\|([^|\s][^|]*)\|([a-z]+)"
    r"(?:\|([^|]*))?(?:\|(?:true|false))?\s*$"
)
_LINE_START: Final = re.compile(r"^\d{1,9}\|\d{1,9}\|(?:unix|tcp)\b")
_MAX_FILE_BYTES: Final = 64 * 1024
_FILE_POLL_S: Final = 0.01
"""Time between reads of the handshake file, only while a plugin starts. A longer time delays
plugins that use the file; a shorter one costs CPU at each start."""

_CAUSES: Final = (
    "The four usual causes: the program or one of its libraries is missing; it is not executable "
    "or made for another machine; it is not a plugin, or was not started by a host; it failed "
    "while it read its own settings."
)


_MISSING_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")


@dataclass(frozen=True, slots=True)
class Handshake:
    """The fields of the line."""

    core: int
    protocol: int
    network: str
    address: str
    transport: str
    certificate: str = ""


def parse_handshake(line: str) -> Handshake | None:
    """Return the handshake in a line; None when the line is other text.

    Raises:
        InternalError: `plugin.bad_handshake`: the line begins like a handshake and is incomplete.
    """
    match = _LINE.search(line)
    if match:
        core, protocol, network, address, transport, certificate = match.groups()
        return Handshake(
            int(core), int(protocol), network, address, transport, (certificate or "").strip()
        )
    if _LINE_START.match(line):
        raise InternalError(
            "plugin.bad_handshake",
            f"the handshake line is not complete: {escape_text(line, 200)!r}",
            fix="Print `1|1|unix|<path>|grpc|` and a newline, in one write.",
        )
    return None


def dial_address(handshake: Handshake, folder: Path) -> str:
    """Return the gRPC address of a handshake, after checking that it may be dialled.

    Raises:
        InternalError: one code for each reason.
    """
    if handshake.core != CORE_VERSION or handshake.protocol != PROTOCOL_VERSION:
        raise InternalError(
            "plugin.wrong_protocol",
            f"the plugin uses protocol {handshake.core}|{handshake.protocol}; "
            f"this host uses {CORE_VERSION}|{PROTOCOL_VERSION}",
            fix="Install a version of the plugin that is made for this host.",
        )
    if handshake.transport != "grpc" or handshake.network != "unix":
        raise InternalError(
            "plugin.wrong_transport",
            f"the plugin offers {handshake.transport} over {handshake.network}, not grpc over unix",
            fix="Listen on a unix socket in PLUGIN_UNIX_SOCKET_DIR.",
        )
    if handshake.certificate:
        raise InternalError(
            "plugin.unwanted_tls",
            "the plugin offers TLS, which this host did not request",
            fix="Serve without TLS when PLUGIN_CLIENT_CERT is not set.",
        )
    if Path(handshake.address).resolve().parent != folder.resolve():
        # Another process could own a socket outside the private folder (threat X15).
        raise InternalError(
            "plugin.foreign_address",
            f"the plugin listens at {escape_text(handshake.address, 200)!r}, "
            "which is outside its private folder",
            fix="Listen on a unix socket in PLUGIN_UNIX_SOCKET_DIR.",
        )
    return f"unix:{handshake.address}"


class HandshakeScanner:
    """Scans lines for the first handshake; later handshakes are ordinary text."""

    def __init__(self) -> None:
        self.result: asyncio.Future[Handshake] = asyncio.get_running_loop().create_future()
        self.result.add_done_callback(_retrieve_failure)

    def scan(self, line: str) -> bool:
        """Return whether the line is the handshake, valid or not."""
        if self.result.done():
            return False
        try:
            handshake = parse_handshake(line)
        except InternalError as error:
            self.result.set_exception(error)
            return True
        if handshake is None:
            return False
        self.result.set_result(handshake)
        return True

    async def watch_file(self, file: Path) -> None:
        """Scan a file until there is a handshake, from the file or from stdout."""
        while not self.result.done():
            with suppress(FileNotFoundError), file.open("rb") as opened:
                text = opened.read(_MAX_FILE_BYTES).decode("utf-8", "replace")
                any(self.scan(line) for line in text.splitlines())
            await asyncio.wait([self.result], timeout=_FILE_POLL_S)


async def wait_for_handshake(
    scanner: HandshakeScanner,
    exited: asyncio.Future[int],
    file: Path,
    timeout_s: float,
    unfinished_line: Callable[[], str],
) -> Handshake:
    """Wait for the handshake of a process that was started.

    Args:
        scanner: scans the lines of stdout.
        exited: the end of the process.
        file: PENSTOCK_HANDSHAKE_FILE.
        timeout_s: the deadline of the stage `plugin.handshake`.
        unfinished_line: returns the text on stdout after the last newline.

    Raises:
        PenstockError: `plugin.handshake_timeout`, `plugin.handshake_unfinished`,
            `plugin.bad_handshake`; `EarlyExitError` when the process ended.
    """
    async with run_together(scanner.watch_file(file)):
        await wait_for_first(scanner.result, exited, timeout_s=timeout_s)
    if scanner.result.done():
        return scanner.result.result()
    if exited.done():
        raise EarlyExitError
    raise _handshake_timeout(timeout_s, unfinished_line())


class EarlyExitError(Exception):
    """The process ended before its handshake; the caller knows its exit code and last lines."""


def exited_early(how: str, last_lines: str, install: str = "") -> PenstockError:
    """Return the error for a process that ended before its handshake. `install` is the command that
    installs its libraries.
    """
    missing = _MISSING_MODULE.search(last_lines)
    return RetriableError(
        "plugin.exited_early",
        f"the plugin {how} before its handshake. Last lines: {last_lines or '(none)'}",
        fix=_installing(missing[1], install) if missing else _CAUSES,
    )


def _installing(module: str, install: str) -> str:
    how = install or f"install what has the module {module}"
    return f"Its library {module} is missing. Where the worker runs: {how}"


def _handshake_timeout(timeout_s: float, unfinished_line: str) -> PenstockError:
    if _LINE.search(unfinished_line):
        return InternalError(
            "plugin.handshake_unfinished",
            f"stage plugin.handshake took longer than {timeout_s:g} s: "
            "the handshake line has no newline",
            fix="End the handshake line with a newline and flush it.",
        )
    return RetriableError(
        "plugin.handshake_timeout",
        f"stage plugin.handshake took longer than {timeout_s:g} s: "
        "the plugin runs, but printed no handshake line",
        fix="Flush stdout after the handshake line, or write it to PENSTOCK_HANDSHAKE_FILE.",
    )


def _retrieve_failure(result: asyncio.Future[Handshake]) -> None:
    """Mark a failure as retrieved: when the process ends first, no caller awaits the result."""
    if not result.cancelled():
        result.exception()
