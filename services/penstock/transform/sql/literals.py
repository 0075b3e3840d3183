"""Formats names, texts and types as Spark SQL, quoted so that nothing in them is read as code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.types as kind

from penstock.model.errors import ConfigError

_SUBSTITUTION: Final = "${"
"""Spark replaces `${…}` by its settings, system properties and environment variables before
parsing, also inside of quotes. A text with these two characters could read the engine's environment
(invariant 9)."""

_ESCAPED: Final = {"\\": "\\\\", "'": "\\'", "$": "\\u0024", "\0": "\\u0000"}


def has_substitution(text: str) -> bool:
    """Whether Spark would substitute a part of a text before parsing it."""
    return _SUBSTITUTION in text


def name(text: str) -> str:
    """Return a column name in backticks.

    Raises:
        ConfigError: `transform.bad_name`: Spark SQL cannot express the name.
    """
    if not text or has_substitution(text) or not _is_unicode(text):
        raise ConfigError(
            "transform.bad_name",
            f"{text!r} cannot be the name of a column",
            fix="Choose a name with at least one character and without `${`.",
        )
    return "`" + text.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a string literal of exactly this text.

    Raises:
        ConfigError: `transform.bad_text`: the text is not valid Unicode.
    """
    if not _is_unicode(text):
        raise ConfigError(
            "transform.bad_text",
            f"{text!r} is not valid Unicode: it has a lone surrogate",
            fix="Correct the text.",
        )
    return "'" + "".join(_ESCAPED.get(sign, sign) for sign in text) + "'"


def type_name(type_: pa.DataType) -> str:
    """Return the SQL name of a type, which must be one of Spark's normal types."""
    plain = _TYPES.get(type_)
    if plain is not None:
        return plain
    if kind.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if kind.is_timestamp(type_):
        return "TIMESTAMP_LTZ" if type_.tz else "TIMESTAMP_NTZ"
    if kind.is_list(type_):
        return f"ARRAY<{type_name(type_.value_type)}>"
    if kind.is_map(type_):
        return f"MAP<{type_name(type_.key_type)}, {type_name(type_.item_type)}>"
    if kind.is_struct(type_):
        fields = ", ".join(f"{name(field.name)}: {type_name(field.type)}" for field in type_)
        return f"STRUCT<{fields}>"
    raise AssertionError(f"{type_} is not a normal type of Spark")


_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.duration("us"): "INTERVAL DAY TO SECOND",
}


def _is_unicode(text: str) -> bool:
    """Whether a text can be encoded as UTF-8: lone surrogates cannot."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)
