"""The key `value.converter` of both connectors: its checks, and what a converter's messages are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock_connector import ConfigError
from penstock_connector.converter_keys import open_converter
from penstock_connector.reach import Reach
from penstock_converters.schema_registry.keys import URL, registry_files, registry_hosts

PATH: Final = "value.converter"

_CONTENT_TYPES: Final[Mapping[str, str]] = {
    "cloudevents": "application/cloudevents+json",
    "json-schema": "application/octet-stream",  # its messages begin with the id of their schema
    "jsonschema": "application/octet-stream",
    "extjson": "application/octet-stream",
    "json": "application/json",
    "string": "text/plain; charset=utf-8",
}
"""Content-Types by the beginning of the name of a converter, in lower case."""


def check_converter(name: str, keys: Mapping[str, str]) -> None:
    """Refuse a converter that does not exist.

    Raises:
        ConfigError: as `open_converter`.
    """
    if name:
        open_converter(PATH, name, keys, is_key=False).close()
    elif keys:
        raise ConfigError(
            "config.missing",
            f"`{PATH}.{next(iter(keys))}` needs `{PATH}`",
            fix=f"Set `{PATH}` to the converter that has the key.",
            config_path=PATH,
        )


def require_registry(reach: Reach, keys: Mapping[str, str]) -> None:
    """Refuse a schema registry, or a file for it, that may not be reached.

    Raises:
        ConfigError: `reach.host`, `reach.folder`.
    """
    for host in registry_hosts(keys):
        reach.require_host(host, f"{PATH}.{URL}")
    for name in registry_files(keys):
        reach.require_path(keys[name], f"{PATH}.{name}")


def content_type_of(name: str) -> str:
    """Return the Content-Type of the messages of a converter."""
    short = name.rpartition(".")[2].lower()
    found = (kind for begin, kind in _CONTENT_TYPES.items() if short.startswith(begin))
    return next(found, "application/octet-stream")
