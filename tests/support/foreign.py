"""Plugins in other languages: built once, started as a host starts them, called by the SDK's own
test kit.

    with ForeignBed([binary]) as bed, source_task(Numbers, {"limit": "9"}, bed=bed) as task:
        assert len(task.rows(9)) == 9

`Numbers` is a Python class that only has the name of the connector.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc

from penstock_kit.testing import wait_until
from support.checkout import ROOT

CREDENTIAL: Final = "a-test"
STARTED: Final = 60.0
ENDED: Final = 60.0
BUILT: Final = 600.0
"""Seconds for a build whose libraries were never built on this machine."""

_MESSAGE_MOST: Final = 64 << 20


def go_build(target: Path, folder: Path = ROOT / "connectors/go", *packages: str) -> Path:
    """Build programs of Go into a folder, and return it. Its caches are where go keeps them."""
    target.mkdir(parents=True, exist_ok=True)
    run_tool("go", "build", "-o", f"{target}/", *(packages or ("./examples/...",)), cwd=folder)
    return target


def run_tool(*command: str | Path, cwd: Path) -> str:
    """Run a tool to its end and return what it printed; its failure is the test's."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILT,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}"
    return done.stdout


def install(plugin: Path, program: Path, target: Path) -> Path:
    """Put the manifest of a plugin, and its program, into a folder; return the folder."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy2(plugin / "plugin.toml", target)
    shutil.copy2(program, target)
    return target


def use_this_node(plugin: Path) -> None:
    """Let a manifest name the node of the test: the PATH of plugins has the system's folders alone,
    and it may be elsewhere.
    """
    program = shutil.which("node")
    assert program is not None, "there is no node: `. deploy/local/setup.sh dev` installs it"
    manifest = plugin / "plugin.toml"
    manifest.write_text(manifest.read_text().replace('"node"', f'"{program}"'))


class ForeignBed:
    """A plugin's process, and a channel to it: what `penstock_connector.testing` calls a bed."""

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self._command = [str(word) for word in command]
        self._env = dict(env or {})
        self.metadata = (("penstock-credential", CREDENTIAL),)
        self.process: subprocess.Popen[bytes]
        self.channel: grpc.Channel

    def __enter__(self) -> Self:
        file, stdout = Path(self._folder.name) / "handshake", Path(self._folder.name) / "stdout"
        environment = {
            "PENSTOCK_PLUGIN_MAGIC_COOKIE": "cookie",
            "PLUGIN_PROTOCOL_VERSIONS": "1",
            "PLUGIN_UNIX_SOCKET_DIR": self._folder.name,
            "PENSTOCK_HANDSHAKE_FILE": str(file),
            "PENSTOCK_INSTANCE_NONCE": CREDENTIAL,
            "PATH": os.environ["PATH"],
            **self._env,
        }
        self.errors = Path(self._folder.name) / "stderr"
        with self.errors.open("wb") as errors, stdout.open("wb") as out:
            self.process = subprocess.Popen(
                self._command, env=environment, stdin=subprocess.PIPE, stdout=out, stderr=errors
            )

        def line() -> str:
            """The handshake, which comes in the file or on stdout, as the plugin likes."""
            text = file.read_text() if file.exists() else stdout.read_text()
            return text if text.endswith("|grpc|\n") else ""

        wait_until(line, STARTED, f"the handshake of {self._command[0]}")
        address = line().split("|")[3]
        options = [
            ("grpc.max_receive_message_length", _MESSAGE_MOST),
            ("grpc.max_send_message_length", _MESSAGE_MOST),
            ("grpc.default_authority", "localhost"),  # as the host's: a path is none
        ]
        self.channel = grpc.insecure_channel(f"unix:{address}", options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.channel.close()
        self.end()
        self._folder.cleanup()

    def end(self) -> int:
        """Close the plugin's stdin, as a host that ends does; return how the process ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.process.wait(ENDED)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(ENDED)
            raise


def npm_install(project: Path, target: Path) -> Path:
    """Copy a project of Node, without what is installed there, and install its libraries."""
    target.mkdir(parents=True, exist_ok=True)
    for file in project.iterdir():
        if file.is_file():
            shutil.copy2(file, target / file.name)
    if (project / "proto").exists():
        shutil.copytree(project / "proto", target / "proto")
    run_tool("npm", "ci", "--ignore-scripts", "--silent", cwd=target)
    return target
