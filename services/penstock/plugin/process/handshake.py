"""The one line by which a plugin says where it listens: `1|1|unix|/dir/s|grpc|<certificate>`.

`find` and `address_of` are pure; `first_handshake` waits. It may stand anywhere in a dirty stdout,
also behind text that has no newline, or come in a file. The first that matches counts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.model.errors import InternalError, PenstockError, RetriableError
from penstock.plugin.errors import printable

CORE_VERSION: Final = 1
PROTOCOL_VERSION: Final = 1

_LINE: Final = re.compile(
    r"(?<!\d)(\d{1,9})\|(\d{1,9})\|(unix|tcp)\|([^|\s][^|]*)\|([a-z]+)"
    r"(?:\|([^|]*))?(?:\|(?:true|false))?\s*$"
)
_ALMOST: Final = re.compile(r"^\d{1,9}\|\d{1,9}\|(?:unix|tcp)\b")
_MOST_FILE_BYTES: Final = 64 * 1024
_FILE_LOOK_EVERY: Final = 0.01
"""Seconds between looks at the handshake file, only while a plugin starts. Larger delays plugins
that use it; smaller costs CPU at each start."""

_CAUSES: Final = (
    "The four usual causes: the program or one of its libraries is missing; it is not executable "
    "or made for another machine; it is not a plugin, or was not started by a host; it failed "
    "while it read its own settings."
)


@dataclass(frozen=True, slots=True)
class Handshake:
    """The fields of the line."""

    core: int
    protocol: int
    network: str
    address: str
    transport: str
    certificate: str = ""


def find(line: str) -> Handshake | None:
    """Return the handshake in a line, None when it is some other text.

    Raises:
        InternalError: `plugin.bad_handshake`, for a line that begins like one and does not end so.
    """
    match = _LINE.search(line)
    if match:
        core, protocol, network, address, transport, certificate = match.groups()
        return Handshake(
            int(core), int(protocol), network, address, transport, (certificate or "").strip()
        )
    if _ALMOST.match(line):
        raise InternalError(
            "plugin.bad_handshake",
            f"the handshake line is not complete: {printable(line, 200)!r}",
            fix="Print `1|1|unix|<path>|grpc|` and a newline, in one write.",
        )
    return None


def address_of(handshake: Handshake, folder: Path) -> str:
    """Return the gRPC address that a handshake names, when it may be dialled.

    Raises:
        InternalError: with one code per reason.
    """
    if handshake.core != CORE_VERSION or handshake.protocol != PROTOCOL_VERSION:
        raise InternalError(
            "plugin.wrong_protocol",
            f"the plugin speaks protocol {handshake.core}|{handshake.protocol}, "
            f"this host {CORE_VERSION}|{PROTOCOL_VERSION}",
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
            "the plugin wants TLS, which this host did not ask for",
            fix="Serve without TLS when PLUGIN_CLIENT_CERT is not set.",
        )
    if Path(handshake.address).resolve().parent != folder.resolve():
        # A socket outside the private folder could be someone else's (threat X15).
        raise InternalError(
            "plugin.foreign_address",
            f"the plugin listens at {printable(handshake.address, 200)!r}, "
            "which is outside its private folder",
            fix="Listen on a unix socket in PLUGIN_UNIX_SOCKET_DIR.",
        )
    return f"unix:{handshake.address}"


class FirstHandshake:
    """Takes lines until one is a handshake; later ones are ordinary text."""

    def __init__(self) -> None:
        self.result: asyncio.Future[Handshake] = asyncio.get_running_loop().create_future()
        self.result.add_done_callback(_seen)

    def took(self, line: str) -> bool:
        """Tell whether the line was the handshake, right or wrong."""
        if self.result.done():
            return False
        try:
            handshake = find(line)
        except InternalError as error:
            self.result.set_exception(error)
            return True
        if handshake is None:
            return False
        self.result.set_result(handshake)
        return True

    async def watch(self, file: Path) -> None:
        """Look for the handshake in a file until there is one, from here or from elsewhere."""
        while not self.result.done():
            with suppress(FileNotFoundError), file.open("rb") as opened:
                text = opened.read(_MOST_FILE_BYTES).decode("utf-8", "replace")
                any(self.took(line) for line in text.splitlines())
            await asyncio.wait([self.result], timeout=_FILE_LOOK_EVERY)


async def first_handshake(
    first: FirstHandshake,
    exited: asyncio.Future[int],
    file: Path,
    seconds: float,
    unfinished: Callable[[], str],
) -> Handshake:
    """Wait for the handshake of a process that was started.

    Args:
        first: takes the lines of stdout.
        exited: the end of the process.
        file: PENSTOCK_HANDSHAKE_FILE.
        seconds: the deadline of the stage `plugin.handshake`.
        unfinished: the text on stdout after the last newline.

    Raises:
        PenstockError: `plugin.handshake_timeout`, `plugin.handshake_unfinished`,
            `plugin.bad_handshake`; `EarlyExit` when the process ended.
    """
    watching = asyncio.create_task(first.watch(file))
    try:
        waits: set[asyncio.Future[int] | asyncio.Future[Handshake]] = {first.result, exited}
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    if first.result.done():
        return first.result.result()
    if exited.done():
        raise EarlyExit
    raise _late(seconds, unfinished())


class EarlyExit(Exception):  # noqa: N818 - it names what happened; the caller makes the error of it
    """The process ended before its handshake."""


def exited_early(how: str, last_lines: str) -> PenstockError:
    """Return the error for a process that ended before its handshake."""
    return RetriableError(
        "plugin.exited_early",
        f"the plugin {how} before its handshake. Last lines: {last_lines or '(none)'}",
        fix=_CAUSES,
    )


def _late(seconds: float, unfinished: str) -> PenstockError:
    if _LINE.search(unfinished):
        return InternalError(
            "plugin.handshake_unfinished",
            f"stage plugin.handshake took longer than {seconds:g} s: "
            "the handshake line has no newline",
            fix="End the handshake line by a newline and flush it.",
        )
    return RetriableError(
        "plugin.handshake_timeout",
        f"stage plugin.handshake took longer than {seconds:g} s: "
        "the plugin runs, but printed no handshake line",
        fix="Flush stdout after the handshake line, or write it to PENSTOCK_HANDSHAKE_FILE.",
    )


def _seen(result: asyncio.Future[Handshake]) -> None:
    """Mark a failure as looked at: nobody waits for it when the process ended first."""
    if not result.cancelled():
        result.exception()
