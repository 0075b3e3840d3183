"""What a connector can be told, and what it makes of that, for forms and tools."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DescribedKey:
    """A key of a configuration. `default` is text, None when there is none; `type` one of the
    protocol's (`plugin_service.proto`): boolean, string, int, duration and others.
    """

    name: str
    type: str = "string"
    default: str | None = None
    required: bool = False
    sensitive: bool = False
    documentation: str = ""
    importance: str = ""
    group: str = ""
    order: int = 0
    width: str = ""
    display_name: str = ""
    choices: tuple[str, ...] = ()
    dependents: tuple[str, ...] = ()
    replaced_by: str = ""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """What a plugin makes of a key; `value` is None for sensitive keys."""

    name: str
    value: str | None = None
    recommended: tuple[str, ...] = ()
    visible: bool = True


@dataclass(frozen=True, slots=True)
class DescribedConnector:
    """A connector, transform or converter of a plugin. `kind` is empty for one of a newer version;
    `framework_keys` are those that we read beside its own.
    """

    name: str
    kind: str
    plugin: str
    version: str
    keys: tuple[DescribedKey, ...] = ()
    framework_keys: tuple[DescribedKey, ...] = ()
