"""A world of its own for each trial: a folder, a name, and the commands that fill and empty it."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.conformance.declared import Declared
from penstock.conformance.verdict import NotApplicableError
from penstock.model.errors import ConfigError

_PLACE: Final = re.compile(r"\{(work|name|folder|python|env:[A-Za-z_][A-Za-z0-9_]*)\}")
_TEMPORARY: Final = Path(tempfile.gettempdir()).resolve()
_COMMAND_WITHIN: Final = 60.0
"""Seconds for a command of the author. Longer hides one that hangs; shorter fails a busy machine's
database."""


class World:
    """Where one trial of a connector takes place. Made by `world`."""

    def __init__(self, declared: Declared, folder: Path, work: Path) -> None:
        self.declared = declared
        self.work = work
        self.name = f"c{secrets.token_hex(4)}"
        self._folder = folder

    def fill(self, text: str) -> str:
        """Return a text with its placeholders filled in.

        Raises:
            NotApplicableError: a variable is not set: what the connector talks to is not there.
        """
        return _PLACE.sub(lambda match: self._place(match[1]), text)

    def filled(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return texts by name, filled in."""
        return {key: self.fill(value) for key, value in texts.items()}

    def neutral(self, text: str) -> str:
        """Return a text without what differs between two worlds."""
        return text.replace(str(self.work), "{work}").replace(self.name, "{name}")

    def target(self, **other: str | None) -> pb.Target:
        """Return the connector configured for this world; a None takes a key away."""
        config = self.filled(self.declared.config)
        secret = self.filled(self.declared.secrets)
        for key, value in other.items():
            place = secret if key in secret else config
            place.pop(key, None)
            if value is not None:
                place[key] = value
        return pb.Target(
            connector=self.declared.name, instance=self.name, config=config, secrets=secret
        )

    async def run(self, command: Sequence[str]) -> str:
        """Run a command of the author in the folder; return what it prints.

        Raises:
            ConfigError: `conformance.command`, it failed or took too long.
        """
        argv = [self.fill(word) for word in command]
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self.work,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_COMMAND_WITHIN):
                out, err = await process.communicate()
        except TimeoutError:
            raise _failed(argv, f"took longer than {_COMMAND_WITHIN:g} s") from None
        finally:
            if process.returncode is None:  # its time is up, or that of the case
                process.kill()
                await process.wait()
        if process.returncode:
            last = err.decode("utf-8", "replace").strip()[-500:]
            raise _failed(argv, f"ended with status {process.returncode}: {last}")
        return out.decode("utf-8", "replace")

    def _place(self, name: str) -> str:
        if name.startswith("env:"):
            variable = name.removeprefix("env:")
            if variable not in os.environ:
                raise NotApplicableError(f"the variable {variable} is not set")
            return os.environ[variable]
        places = {
            "work": str(self.work),
            "name": self.name,
            "folder": str(self._folder),
            "python": sys.executable,
        }
        return places[name]


@asynccontextmanager
async def world(declared: Declared, folder: Path) -> AsyncIterator[World]:
    """Make a world, and leave nothing of it behind."""
    made = World(declared, folder, Path(tempfile.mkdtemp(prefix="conf-", dir=_TEMPORARY)))
    try:
        for command in declared.setup:
            await made.run(command)
        yield made
    finally:
        try:
            for command in declared.cleanup:
                await made.run(command)
        finally:
            shutil.rmtree(made.work, ignore_errors=True)


def _failed(argv: Sequence[str], how: str) -> ConfigError:
    return ConfigError(
        "conformance.command",
        f"{' '.join(argv)[:300]} {how}",
        fix="Correct the command in the declaration; `{work}` is its working folder.",
    )
