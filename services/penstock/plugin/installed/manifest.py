"""Installed plugins: `plugin.toml` manifests, and the one way from a class name to a command.

    name = "files"
    version = "1.0.0"
    command = ["{python}", "-m", "penstock_builtin"]

    [[connector]]
    name = "file-source"
    kind = "source"
    aliases = ["org.apache.kafka.connect.file.FileStreamSourceConnector"]
    title = "Lines of files"

In `command`, `{python}` is the host's interpreter and `{folder}` the folder of the manifest.
Nothing else decides what is run: a configuration only ever names a connector (threat X14). A plugin
that runs elsewhere has an `address` instead (`remote`).
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from penstock.model.errors import ConfigError, nearest
from penstock.plugin.installed.remote import Remote, TlsFiles, parse_address

FILE_NAME: Final = "plugin.toml"
SEARCH_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where a command without a slash is looked for, and the PATH that plugins get."""

_KEYS: Final = frozenset({"name", "version", "command", "address", "tls", "connector"})
_TLS_KEYS: Final = frozenset({"ca", "certificate", "key", "server_name"})
_CONNECTOR_KEYS: Final = frozenset({"name", "kind", "aliases", "title"})
_MOST_BYTES: Final = 1 << 20


class Kind(StrEnum):
    """What an entry of a plugin does."""

    SOURCE = "source"
    SINK = "sink"
    TRANSFORM = "transform"
    CONVERTER = "converter"


@dataclass(frozen=True, slots=True)
class ConnectorEntry:
    """A connector that a plugin serves, and the other names that configurations may use for it."""

    name: str
    kind: Kind
    aliases: tuple[str, ...] = ()
    title: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The name and the aliases."""
        return (self.name, *self.aliases)


@dataclass(frozen=True, slots=True)
class Manifest:
    """An installed plugin: a command that starts it, or where it runs."""

    name: str
    version: str
    command: tuple[str, ...]
    folder: Path
    connectors: tuple[ConnectorEntry, ...]
    remote: Remote | None = None
    fingerprint: str = ""
    """Changes with the files of the plugin: a process of other files is another one."""

    def argv(self) -> tuple[str, ...]:
        """Return the command with an absolute program and its placeholders filled in.

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
                f"plugin {self.name}: there is no program {words[0]!r} that may be executed",
                config_path=f"{self.folder / FILE_NAME}: command",
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
        raise _bad(folder, "", str(error)) from None
    _known_keys(table, _KEYS, folder, "")
    entries = table.get("connector")
    if not isinstance(entries, list) or not entries:
        raise _bad(folder, "connector", "names no [[connector]]")
    remote = _remote(table, folder)
    return Manifest(
        name=_text(table, "name", folder),
        version=_text(table, "version", folder),
        command=() if remote else _texts(table, "command", folder, least=1),
        folder=folder,
        connectors=tuple(_entry(entry, folder) for entry in entries),
        remote=remote,
    )


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a plugin's folder.

    Raises:
        ConfigError: `plugin.bad_manifest`.
    """
    path = folder / FILE_NAME
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise _bad(folder, "", f"is larger than {_MOST_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(folder, "", str(error)) from None
    return parse_manifest(text, folder.resolve())


def _entry(table: Any, folder: Path) -> ConnectorEntry:
    if not isinstance(table, dict):
        raise _bad(folder, "connector", "is not a table")
    _known_keys(table, _CONNECTOR_KEYS, folder, "connector.")
    kind = _text(table, "kind", folder)
    if kind not in list(Kind):
        raise _bad(folder, "connector.kind", f"is {kind!r}, not one of {', '.join(Kind)}")
    return ConnectorEntry(
        name=_text(table, "name", folder),
        kind=Kind(kind),
        aliases=_texts(table, "aliases", folder),
        title=table.get("title", ""),
    )


def _remote(table: Mapping[str, Any], folder: Path) -> Remote | None:
    tls = table.get("tls", {})
    if "address" not in table:
        if tls:
            raise _bad(folder, "tls", "is for a plugin with an `address`")
        return None
    if "command" in table:
        raise _bad(folder, "address", "and `command`: one says where it runs, the other starts it")
    try:
        address, secure = parse_address(_text(table, "address", folder))
    except ValueError as error:
        raise _bad(folder, "address", str(error)) from None
    if not isinstance(tls, dict):
        raise _bad(folder, "tls", "is not a table")
    _known_keys(tls, _TLS_KEYS, folder, "tls.")
    if not secure:
        if tls:
            raise _bad(folder, "tls", "is for an address that begins with grpcs://")
        return Remote(address)
    if ("certificate" in tls) is not ("key" in tls):
        raise _bad(folder, "tls", "needs `certificate` and `key` together")
    name = _text(tls, "server_name", folder) if "server_name" in tls else ""
    files = {key: folder / _text(tls, key, folder) for key in tls if key != "server_name"}
    return Remote(address, TlsFiles(**files, server_name=name))


def _known_keys(table: Mapping[str, Any], known: frozenset[str], folder: Path, prefix: str) -> None:
    for key in table.keys() - known:
        like = nearest(key, known)
        hint = f"did you mean {like[0]!r}?" if like else f"known are {', '.join(sorted(known))}"
        raise _bad(folder, prefix + key, f"is no key of a manifest; {hint}")


def _text(table: Mapping[str, Any], key: str, folder: Path) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise _bad(folder, key, "must be a text that is not empty")
    return value


def _texts(table: Mapping[str, Any], key: str, folder: Path, least: int = 0) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise _bad(folder, key, "must be a list of texts")
    if len(value) < least:
        raise _bad(folder, key, "must not be empty")
    return tuple(value)


def _bad(folder: Path, key: str, why: str) -> ConfigError:
    return ConfigError(
        "plugin.bad_manifest",
        f"{folder / FILE_NAME}: {key} {why}".replace(":  ", ": "),
        config_path=key,
        fix="Correct the manifest, or remove the folder from the plugin path.",
    )
