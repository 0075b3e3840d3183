"""The keys by which a connector of a broker names its converters, and what they open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from penstock_connector._config import key
from penstock_connector._errors import ConfigError
from penstock_connector.header_converters import open_header_converter
from penstock_connector.messages import Converters
from penstock_connector.plugin_converter import PluginConverter
from penstock_connector.reach import Reaching
from penstock_converters import Converter, InvalidConverterError
from penstock_converters.registry import create_converter, unused_keys
from penstock_converters.schema_registry.keys import URL, registry_files, registry_hosts
from penstock_values.converter_process import PROCESS, ConverterProcess


def open_converter(path: str, name: str, keys: Mapping[str, str], *, is_key: bool) -> Converter:
    """Return the converter of a configuration. `path` is the key that has its name.

    Raises:
        ConfigError: it does not exist, or one of its keys has no valid value.
    """
    if process := keys.get(PROCESS):
        return PluginConverter(path, ConverterProcess.from_json(process), is_key=is_key)
    try:
        return create_converter(name, keys, is_key=is_key)
    except InvalidConverterError as error:
        where = f"{path}.{error.config_path}" if error.config_path else path
        raise ConfigError(error.code, error.message, fix=error.fix, config_path=where) from None


@dataclass(frozen=True)
class ConverterKeys(Reaching):
    """The keys by which a connector of a broker names its converters."""

    key_converter: str = key(
        "json",
        doc="Converter of keys: a name, or Kafka Connect's class (`penstock_converters/README.md`"
        " has all), or a converter of a plugin.",
        group="Messages",
    )
    key_converter_keys: Mapping[str, str] = key(
        doc="Keys of the key converter.", name="key.converter", group="Messages"
    )
    value_converter: str = key(
        "json", doc="Converter of values, as `key.converter`.", group="Messages"
    )
    value_converter_keys: Mapping[str, str] = key(
        doc="Keys of the value converter.", name="value.converter", group="Messages"
    )

    header_converter: str = key(
        "simple",
        doc="Converter of headers. Rows have the text of a header's value: `simple` and `string` "
        "leave it as it is, but for times, lists, maps and structs of HeaderFrom and InsertHeader; "
        "`json` and those of numbers convert it.",
        group="Messages",
    )
    header_converter_keys: Mapping[str, str] = key(
        doc="Keys of the header converter.", name="header.converter", group="Messages"
    )

    def check_converters(self) -> None:
        """Refuse converters that do not exist.

        Raises:
            ConfigError: as `open_converter` and `open_header_converter`.
        """
        self.open_converters()

    def open_converters(self) -> Converters:
        """Return new converters."""
        sides = (
            ("key.converter", self.key_converter, self.key_converter_keys),
            ("value.converter", self.value_converter, self.value_converter_keys),
        )
        key, value = (open_converter(*one, is_key=one is sides[0]) for one in sides)
        headers = open_header_converter(self.header_converter, self.header_converter_keys)
        return Converters(key, value, headers)

    def require_reach(self) -> None:
        """Refuse a schema registry, or a file for it, that the node does not let it reach."""
        super().require_reach()
        for path, keys in (
            ("key.converter", self.key_converter_keys),
            ("value.converter", self.value_converter_keys),
        ):
            for host in registry_hosts(keys):
                self.reach.require_host(host, f"{path}.{URL}")
            for name in registry_files(keys):
                self.reach.require_path(keys[name], f"{path}.{name}")

    def unused_converter_keys(self) -> dict[str, str]:
        """Return the keys of converters that do nothing beside the others, and why."""
        sides = (
            ("key.converter", self.key_converter, self.key_converter_keys),
            ("value.converter", self.value_converter, self.value_converter_keys),
        )
        return {
            f"{path}.{key}": why
            for path, name, keys in sides
            for key, why in unused_keys(name, keys).items()
        }

    def named_converters(self) -> list[str]:
        """Return the keys that name another converter than the default."""
        named = {f"{side}_converter": f"{side}.converter" for side in ("key", "value", "header")}
        own = (one for one in fields(self) if getattr(self, one.name) != one.default)
        return [named[one.name] for one in own if one.name in named]
