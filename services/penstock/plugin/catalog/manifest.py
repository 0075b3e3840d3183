"""The manifest of an installed plugin: its connectors, and how to start or reach it.

    name = "files"
    version = "1.0.0"
    command = ["{python}", "-m", "penstock_builtin"]

    [[connector]]
    name = "file-source"
    kind = "source"
    aliases = ["org.apache.kafka.connect.file.FileStreamSourceConnector"]
    title = "Lines of files"

In `command`, `{python}` is the interpreter of the host and `{folder}` the folder of the manifest.
Only manifests decide which programs run: a configuration never names more than a connector (threat
X14). `install = "pip install 'penstock[kafka]'"` is shown to users where a module is missing.

A remote plugin has an address instead of a command:

    address = "grpcs://plugins.example:9443"     # or grpc://host:port, in a private network

    [tls]                                        # all keys are optional; files beside the manifest
    ca = "ca.pem"                                # trusted authority; default: those of the system
    certificate = "worker.pem"                   # client certificate of the worker
    key = "worker.key"
    server_name = "plugins.example"              # name in the certificate of the server
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from penstock.model.errors import ConfigError, nearest_names
from penstock.plugin.errors import escape_text
from penstock.rpc.channels import ClientTls

MANIFEST_FILE: Final = "plugin.toml"
SEARCH_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where a command without a slash is searched, and the PATH of plugins."""

_KEYS: Final = frozenset({"name", "version", "command", "address", "tls", "install", "connector"})
_TLS_KEYS: Final = frozenset({"ca", "certificate", "key", "server_name"})
_CONNECTOR_KEYS: Final = frozenset({"name", "kind", "aliases", "title", "own_keys", "max_tasks"})
_MAX_BYTES: Final = 1 << 20
_MAX_PEM_BYTES: Final = 1 << 20
_URL: Final = re.compile(r"(grpcs?)://((?:[\w.-]+|\[[0-9A-Fa-f:]+\]):\d{1,5})/?")


class Kind(StrEnum):
    """The kind of a connector entry."""

    SOURCE = "source"
    SINK = "sink"
    TRANSFORM = "transform"
    CONVERTER = "converter"


def simple_names(aliases: Iterable[str]) -> tuple[str, ...]:
    """Return Java's class names among aliases without their packages, and these without
    `Connector`: Kafka Connect takes both.
    """
    classes = [alias.rpartition(".")[2] for alias in aliases if "." in alias]
    return (*classes, *(name.removesuffix("Connector") for name in classes))


@dataclass(frozen=True, slots=True)
class ConnectorEntry:
    """A connector of a manifest; configurations may use its name or an alias as the class.
    `own_keys`: keys of a flat configuration that are this connector's, although Penstock has keys
    of the same names; `topic.creation.*` are all that begin so. `max_tasks`: tasks that a process
    takes; more start another one. 0: any.
    """

    name: str
    kind: Kind
    aliases: tuple[str, ...] = ()
    title: str = ""
    own_keys: tuple[str, ...] = ()
    max_tasks: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The name and the aliases."""
        return (self.name, *self.aliases)

    @property
    def simple_names(self) -> tuple[str, ...]:
        """Those of its aliases."""
        return simple_names(self.aliases)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files. They are read at each connection, so they may be renewed."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""

    def read(self) -> ClientTls:
        """Read the files.

        Raises:
            ConfigError: `plugin.tls_file`.
        """
        return ClientTls(
            _read_pem(self.ca), _read_pem(self.certificate), _read_pem(self.key), self.server_name
        )


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """The `host:port` of a remote plugin, and its TLS."""

    address: str
    tls: TlsFiles | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """An installed plugin: a local one has a command, a remote one an address."""

    name: str
    version: str
    command: tuple[str, ...]
    folder: Path
    connectors: tuple[ConnectorEntry, ...]
    remote: RemoteAddress | None = None
    install: str = ""
    """Command that installs its libraries."""
    fingerprint: str = ""
    """Changes with the files of the plugin, so that changed files get a new process."""

    def resolve_command(self) -> tuple[str, ...]:
        """Return the command with an absolute program and with its placeholders replaced.

        Raises:
            ConfigError: `plugin.command_not_found`.
        """
        words = [
            word.replace("{python}", sys.executable).replace("{folder}", str(self.folder))
            for word in self.command
        ]
        program = str(self.folder / words[0]) if "/" in words[0] else words[0]
        found = shutil.which(program, path=SEARCH_PATH)
        if found is None:
            raise ConfigError(
                "plugin.command_not_found",
                f"plugin {self.name}: the program {words[0]!r} does not exist or is not executable",
                config_path=f"{self.folder / MANIFEST_FILE}: command",
                fix="Install the program, or correct `command` in the manifest.",
            )
        return (found, *words[1:])


def parse_manifest(text: str, folder: Path) -> Manifest:
    """Return the manifest in a text.

    Raises:
        ConfigError: `plugin.bad_manifest`, naming the key.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _invalid_manifest(folder, "", str(error)) from None
    _check_keys(table, _KEYS, folder, "")
    entries = table.get("connector")
    if not isinstance(entries, list) or not entries:
        raise _invalid_manifest(folder, "connector", "is missing: add a [[connector]]")
    remote = _parse_remote(table, folder)
    connectors = tuple(_parse_entry(entry, folder) for entry in entries)
    if remote and any(entry.max_tasks for entry in connectors):
        raise _invalid_manifest(
            folder, "connector.max_tasks", "is only for a plugin with a `command`"
        )
    return Manifest(
        name=_read_text(table, "name", folder),
        version=_read_text(table, "version", folder),
        command=() if remote else _read_texts(table, "command", folder, min_count=1),
        folder=folder,
        connectors=connectors,
        remote=remote,
        install=_read_text(table, "install", folder) if "install" in table else "",
    )


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest in the folder of a plugin.

    Raises:
        ConfigError: `plugin.bad_manifest`.
    """
    path = folder / MANIFEST_FILE
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise _invalid_manifest(folder, "", f"is larger than {_MAX_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid_manifest(folder, "", str(error)) from None
    return parse_manifest(text, folder.resolve())


def parse_address(text: str) -> tuple[str, bool]:
    """Return `host:port`, and whether TLS is used.

    Raises:
        ValueError: the text is not like `grpcs://host:9443` or `grpc://host:9443`.
    """
    match = _URL.fullmatch(text)
    if match is None or not 0 < int(match[2].rpartition(":")[2]) < 1 << 16:
        raise ValueError(f"is {escape_text(text, 100)!r}, not like grpcs://host:9443")
    return match[2], match[1] == "grpcs"


def _parse_entry(table: Any, folder: Path) -> ConnectorEntry:
    if not isinstance(table, dict):
        raise _invalid_manifest(folder, "connector", "is not a table")
    _check_keys(table, _CONNECTOR_KEYS, folder, "connector.")
    kind = _read_text(table, "kind", folder)
    if kind not in list(Kind):
        raise _invalid_manifest(
            folder, "connector.kind", f"is {kind!r}; expected one of {', '.join(Kind)}"
        )
    max_tasks = _read_count(table, "max_tasks", folder)
    if max_tasks and kind not in {Kind.SOURCE, Kind.SINK}:
        raise _invalid_manifest(folder, "connector.max_tasks", "is only for sources and sinks")
    return ConnectorEntry(
        name=_read_text(table, "name", folder),
        kind=Kind(kind),
        aliases=_read_texts(table, "aliases", folder),
        title=table.get("title", ""),
        own_keys=_read_texts(table, "own_keys", folder),
        max_tasks=max_tasks,
    )


def _parse_remote(table: Mapping[str, Any], folder: Path) -> RemoteAddress | None:
    tls = table.get("tls", {})
    if "address" not in table:
        if tls:
            raise _invalid_manifest(folder, "tls", "is only for a plugin with an `address`")
        return None
    if "command" in table:
        raise _invalid_manifest(
            folder, "address", "and `command` exclude each other: keep one of them"
        )
    try:
        address, secure = parse_address(_read_text(table, "address", folder))
    except ValueError as error:
        raise _invalid_manifest(folder, "address", str(error)) from None
    if not isinstance(tls, dict):
        raise _invalid_manifest(folder, "tls", "is not a table")
    _check_keys(tls, _TLS_KEYS, folder, "tls.")
    if not secure:
        if tls:
            raise _invalid_manifest(
                folder, "tls", "is only for an address that begins with grpcs://"
            )
        return RemoteAddress(address)
    if ("certificate" in tls) is not ("key" in tls):
        raise _invalid_manifest(folder, "tls", "needs `certificate` and `key` together")
    name = _read_text(tls, "server_name", folder) if "server_name" in tls else ""
    files = {key: folder / _read_text(tls, key, folder) for key in tls if key != "server_name"}
    return RemoteAddress(address, TlsFiles(**files, server_name=name))


def _check_keys(table: Mapping[str, Any], known: frozenset[str], folder: Path, prefix: str) -> None:
    for key in table.keys() - known:
        similar = nearest_names(key, known)
        hint = (
            f"did you mean {similar[0]!r}?" if similar else f"known are {', '.join(sorted(known))}"
        )
        raise _invalid_manifest(folder, prefix + key, f"is not a key of a manifest; {hint}")


def _read_text(table: Mapping[str, Any], key: str, folder: Path) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise _invalid_manifest(folder, key, "must be a non-empty text")
    return value


def _read_texts(
    table: Mapping[str, Any], key: str, folder: Path, min_count: int = 0
) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise _invalid_manifest(folder, key, "must be a list of texts")
    if len(value) < min_count:
        raise _invalid_manifest(folder, key, "must not be empty")
    return tuple(value)


def _read_count(table: Mapping[str, Any], key: str, folder: Path) -> int:
    value = table.get(key, 0)
    if type(value) is not int or value < 0:
        raise _invalid_manifest(folder, key, "must be a number, at least 0")
    return value


def _read_pem(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_PEM_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "the file is not PEM text"
        raise ConfigError(
            "plugin.tls_file",
            f"{path} cannot be read: {why}",
            config_path="tls",
            fix="Name a PEM file that the worker may read.",
        ) from None


def _invalid_manifest(folder: Path, key: str, why: str) -> ConfigError:
    return ConfigError(
        "plugin.bad_manifest",
        f"{folder / MANIFEST_FILE}: {key} {why}".replace(":  ", ": "),
        config_path=key,
        fix="Correct the manifest, or remove the folder from the plugin path.",
    )
