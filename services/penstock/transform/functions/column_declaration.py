"""Parses columns that a configuration declares: `id int64, tags list<string>, p decimal(10,2)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.model.config_def import did_you_mean
from penstock.model.errors import ConfigError
from penstock.transform.row_parts import check_new_name

COLUMN_TYPES: Final = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`|[^\s<>(),:`]+)|([<>(),:]))")
_MAX_NESTING: Final = 16


def parse_columns(text: str, path: str) -> pa.Schema:
    """Parse declared columns into a schema.

    Raises:
        ConfigError: `transform.bad_columns`, or a column has a reserved name.
    """
    reader = _Reader(_tokens(text, path), path)
    fields = reader.fields("", end="")
    names = [field.name for field in fields]
    if not fields or len(set(names)) < len(names):
        raise reader.invalid("each column must have its own name")
    for name in names:
        check_new_name(name, path)
    return pa.schema(fields)


def _tokens(text: str, path: str) -> list[str]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise _Reader([], path).invalid(f"`{text[at:][:20]}` is not a name, type or sign")
        found.append(match[1] or match[2])
        at = match.end()
    return found


@dataclass(slots=True)
class _Reader:
    """Recursive descent over the tokens."""

    tokens: list[str]
    path: str
    at: int = 0
    depth: int = 0

    def fields(self, between: str, end: str) -> list[pa.Field]:
        """Parse `name type` or `name: type`, separated by commas, up to the sign `end`."""
        found = []
        while True:
            name = self.take()
            if between:
                self.expect(between)
            found.append(pa.field(name.strip("`").replace("``", "`"), self.type_()))
            if self.next != ",":
                break
            self.at += 1
        if self.next != end:
            raise self.invalid(f"`{self.next}` is not expected")
        self.at += 1
        return found

    def type_(self) -> pa.DataType:
        """Parse a type."""
        self.depth += 1
        if self.depth > _MAX_NESTING:
            raise self.invalid(f"types are nested deeper than {_MAX_NESTING} levels")
        word = self.take().lower()
        found = COLUMN_TYPES.get(word) or self._nested(word)
        self.depth -= 1
        return found

    def _nested(self, word: str) -> pa.DataType:
        match word:
            case "decimal":
                digits, scale = self._pair("(", ")")
                return self._decimal(digits, scale)
            case "list":
                self.expect("<")
                item = self.type_()
                self.expect(">")
                return pa.list_(item)
            case "map":
                self.expect("<")
                key = self.type_()
                self.expect(",")
                item = self.type_()
                self.expect(">")
                return pa.map_(key, item)
            case "struct":
                self.expect("<")
                return pa.struct(self.fields(":", ">"))
        known = (*COLUMN_TYPES, "decimal", "list", "map", "struct")
        raise self.invalid(f"there is no type `{word}`", did_you_mean(word, known))

    def _pair(self, opening: str, closing: str) -> tuple[str, str]:
        self.expect(opening)
        first = self.take()
        self.expect(",")
        second = self.take()
        self.expect(closing)
        return first, second

    def _decimal(self, digits: str, scale: str) -> pa.DataType:
        try:
            return pa.decimal128(int(digits), int(scale))
        except (ValueError, pa.ArrowException):
            raise self.invalid(f"there is no type decimal({digits},{scale})") from None

    @property
    def next(self) -> str:
        """The next token; empty at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        """Take a name or the word of a type."""
        word = self.next
        if not word or word in "<>(),:":
            where = f"before `{word}`" if word else "at the end"
            raise self.invalid(f"a name or type is missing {where}")
        self.at += 1
        return word

    def expect(self, sign: str) -> None:
        """Take this sign."""
        if self.next != sign:
            raise self.invalid(f"`{sign}` is missing")
        self.at += 1

    def invalid(self, why: str, fix: str = "") -> ConfigError:
        """Build the error of an invalid declaration."""
        return ConfigError(
            "transform.bad_columns",
            f"the declared columns are not valid: {why}",
            fix=fix or "Write `name type, name type`, for instance `id int64, name string`.",
            config_path=self.path,
        )
