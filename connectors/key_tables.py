"""Writes the tables of keys in the READMEs of the connectors that ship, from what they describe.

    python connectors/key_tables.py [--check]

A table stands between `<!-- keys of NAME -->` and `<!-- end of keys -->`. With `--check` nothing is
written: a table that is not fresh is named, and the exit code is 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import penstock_kafka
import penstock_rocketmq

import penstock_builtin
import penstock_databases
import penstock_net
from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock_connector._connectors import spec_of
from penstock_converters.avro.converter import AVRO_KEYS
from penstock_converters.cloudevents_converter import CLOUDEVENTS_KEYS
from penstock_converters.config_values import ConverterKey
from penstock_converters.json.schema_converter import JSON_SCHEMA_KEYS
from penstock_converters.protobuf.converter import PROTOBUF_KEYS
from penstock_converters.schema_registry.apicurio_keys import APICURIO_KEYS
from penstock_converters.schema_registry.keys import REGISTRY_KEYS, URL

HERE: Final = Path(__file__).parent


def _spec_of_keys(name: str, keys: Sequence[ConverterKey]) -> pb.ConnectorSpec:
    """Return keys of converters as those of a connector."""
    spec = pb.ConnectorSpec(name=name)
    for key in keys:
        default = "" if key.default is None else str(key.default)
        spec.config_keys.add(
            name=key.name,
            required=key.name == URL,
            default_value=default.lower() if isinstance(key.default, bool) else default,
            documentation=key.doc,
            choices=key.choices,
        )
    return spec


CONVERTERS: Final = {
    "converters with a registry": REGISTRY_KEYS,
    "the converter of CloudEvents": CLOUDEVENTS_KEYS,
    "the Avro converter": AVRO_KEYS,
    "Apicurio's Avro converter": APICURIO_KEYS,
    "the converter of JSON Schema": JSON_SCHEMA_KEYS,
    "the Protobuf converter": PROTOBUF_KEYS,
}
SPECS: Final[Mapping[str, pb.ConnectorSpec]] = {
    **{
        kind.name: spec_of(kind)
        for package in (
            penstock_builtin,
            penstock_databases,
            penstock_kafka,
            penstock_net,
            penstock_rocketmq,
        )
        for kind in package.CONNECTORS
    },
    **{name: _spec_of_keys(name, keys) for name, keys in CONVERTERS.items()},
}
TABLE: Final = re.compile(r"<!-- keys of (.+?) -->\n.*?<!-- end of keys -->\n", re.DOTALL)
HEAD: Final = "| key | default | meaning |\n|---|---|---|\n"


def key_table(spec: pb.ConnectorSpec) -> str:
    """Return the table of a connector's keys, between its marks; those of high importance first."""
    keys = sorted(spec.config_keys, key=lambda key: key.importance != "high")
    rows = "".join(map(_row, keys))
    return f"<!-- keys of {spec.name} -->\n{HEAD}{rows}<!-- end of keys -->\n"


def _row(key: pb.ConfigKey) -> str:
    default = "required" if key.required else _code(key.default_value)
    text = key.documentation
    choices = [_code(choice) for choice in key.choices if choice]
    if any(choice not in text for choice in choices):
        text += f" One of {', '.join(choices)}."
    return f"| `{key.name}` | {default} | {text.replace('|', '&#124;')} |\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def refresh(text: str, specs: Mapping[str, pb.ConnectorSpec] = SPECS) -> str:
    """Return a README with fresh tables.

    Raises:
        KeyError: no connector has the name that a mark has.
    """
    return TABLE.sub(lambda found: key_table(specs[found[1]]), text)


def tables_of(text: str) -> list[str]:
    """Return the connectors whose tables a README has."""
    return TABLE.findall(text)


def readmes() -> Iterator[tuple[Path, str]]:
    """Yield the READMEs that have tables, with their texts."""
    for file in sorted(HERE.glob("*/**/README.md")):
        text = file.read_text(encoding="utf-8")
        if tables_of(text):
            yield file, text


def main(words: list[str]) -> int:
    """Write the tables, or name those that are not fresh."""
    stale = [(file, refresh(text)) for file, text in readmes() if refresh(text) != text]
    for file, fresh in stale:
        print(file)
        if "--check" not in words:
            file.write_text(fresh, encoding="utf-8")
    return 1 if stale and "--check" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
