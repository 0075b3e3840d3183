"""The sandbox of a trial: a folder, a unique name, and the author's commands."""

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
from penstock.model.errors import ConfigError
from penstock_kit.conformance.declaration import ConnectorDeclaration
from penstock_kit.conformance.results import NotApplicableError

_PLACEHOLDER: Final = re.compile(r"\{(work|name|folder|python|env:[A-Za-z_][A-Za-z0-9_]*)\}")
_TEMPORARY: Final = Path(tempfile.gettempdir()).resolve()
_COMMAND_TIMEOUT_S: Final = 60.0
"""For a command of the author. Longer hides one that hangs; shorter fails the database of a busy
machine."""


class Sandbox:
    """The surroundings of one trial of a connector. Create it by `create_sandbox`."""

    def __init__(self, declaration: ConnectorDeclaration, folder: Path, work: Path) -> None:
        self.declaration = declaration
        self.work = work
        self.name = f"c{secrets.token_hex(4)}"
        self._folder = folder

    def expand(self, text: str) -> str:
        """Return a text with its placeholders replaced.

        Raises:
            NotApplicableError: a variable is not set: the external system is not there.
        """
        return _PLACEHOLDER.sub(lambda match: self._value(match[1]), text)

    def expand_all(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return texts by name, with their placeholders replaced."""
        return {key: self.expand(value) for key, value in texts.items()}

    def normalize(self, text: str) -> str:
        """Return a text without the folder and the name, which differ between two sandboxes."""
        return text.replace(str(self.work), "{work}").replace(self.name, "{name}")

    def target(self, **other: str | None) -> pb.Target:
        """Return the connector configured for this sandbox; None removes a key."""
        config = self.expand_all(self.declaration.config)
        secret = self.expand_all(self.declaration.secrets)
        for key, value in other.items():
            values = secret if key in secret else config
            values.pop(key, None)
            if value is not None:
                values[key] = value
        return pb.Target(
            connector=self.declaration.name, instance=self.name, config=config, secrets=secret
        )

    async def run(self, command: Sequence[str]) -> str:
        """Run a command of the author in the folder; return its standard output.

        Raises:
            ConfigError: `conformance.command`: it failed or took too long.
        """
        argv = [self.expand(word) for word in command]
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self.work,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_COMMAND_TIMEOUT_S):
                out, err = await process.communicate()
        except TimeoutError:
            raise _failed(argv, f"took longer than {_COMMAND_TIMEOUT_S:g} s") from None
        finally:
            if process.returncode is None:  # a timeout, of it or of the case
                process.kill()
                await process.wait()
        if process.returncode:
            last = err.decode("utf-8", "replace").strip()[-500:]
            raise _failed(argv, f"ended with status {process.returncode}: {last}")
        return out.decode("utf-8", "replace")

    def _value(self, name: str) -> str:
        if name.startswith("env:"):
            variable = name.removeprefix("env:")
            if variable not in os.environ:
                raise NotApplicableError(f"the variable {variable} is not set")
            return os.environ[variable]
        values = {
            "work": str(self.work),
            "name": self.name,
            "folder": str(self._folder),
            "python": sys.executable,
        }
        return values[name]


@asynccontextmanager
async def create_sandbox(declaration: ConnectorDeclaration, folder: Path) -> AsyncIterator[Sandbox]:
    """Create a sandbox with its `setup`; remove it after `cleanup`."""
    sandbox = Sandbox(declaration, folder, Path(tempfile.mkdtemp(prefix="conf-", dir=_TEMPORARY)))
    try:
        for command in declaration.setup:
            await sandbox.run(command)
        yield sandbox
    finally:
        try:
            for command in declaration.cleanup:
                await sandbox.run(command)
        finally:
            shutil.rmtree(sandbox.work, ignore_errors=True)


def _failed(argv: Sequence[str], how: str) -> ConfigError:
    return ConfigError(
        "conformance.command",
        f"{' '.join(argv)[:300]} {how}",
        fix="Correct the command in the declaration; `{work}` is its working folder.",
    )
