"""The page of converters: their names, and the keys of each kind."""

from __future__ import annotations

from typing import Final

from penstock_converters.config_values import ConverterKey
from penstock_converters.registry import KINDS, SIMPLE_HEADER_CONVERTER, ConverterKind
from penstock_converters.schema_registry.keys import URL
from reference.key_table_script import load_script
from reference.markdown import code, codes, page, plain, table

_REGISTRY: Final = "converters with a registry"


def write_page() -> str:
    """Return the page."""
    names = [(one.names[0], one.names[1:]) for one in KINDS]
    return page(
        "Converters",
        "A converter makes rows of the bytes of messages, and bytes of rows. Connectors of systems "
        "whose messages are bytes have the keys `key.converter` and `value.converter`. The keys of "
        "a converter follow its name: `value.converter.schemas.enable`. "
        "Embedded topics need none.",
        table(
            ("converter", "other names"),
            ((code(name), codes(others)) for name, others in names),
        ),
        f"Headers also have `{SIMPLE_HEADER_CONVERTER[0]}` "
        f"({codes(SIMPLE_HEADER_CONVERTER[1:])}), which is the default of `header.converter`.",
        *(f"## {one.names[0]}\n\n{_keys(one)}" for one in KINDS if one.keys),
        "## Keys of a schema registry",
        _table(load_script().CONVERTERS[_REGISTRY]),
    )


def _keys(kind: ConverterKind) -> str:
    registry = {key.name for key in load_script().CONVERTERS[_REGISTRY]}
    own = [key for key in kind.keys if key.name not in registry]
    if len(own) == len(kind.keys):
        return _table(own)
    return (
        f"It has [the keys of a schema registry](#keys-of-a-schema-registry), and:\n\n{_table(own)}"
    )


def _table(keys: tuple[ConverterKey, ...] | list[ConverterKey]) -> str:
    return table(
        ("key", "type", "default", "meaning"),
        ((code(key.name), key.type, _default(key), _meaning(key)) for key in keys),
    )


def _default(key: ConverterKey) -> str:
    if key.name == URL:
        return "required"
    if key.default is None:
        return ""
    return code(str(key.default).lower() if isinstance(key.default, bool) else str(key.default))


def _meaning(key: ConverterKey) -> str:
    text = plain(key.doc)
    choices = [choice for choice in key.choices if choice]
    return f"{text} One of {codes(choices)}." if choices else text
