"""Transforms of headers: DropHeaders, InsertHeader, HeaderFrom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.columns import HEADERS
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import (
    Change,
    OutputColumn,
    Transform,
    TypeDefinition,
    project_columns,
)
from penstock.transform.headers import format_header, parse_header, remove_headers, set_headers
from penstock.transform.row import Row
from penstock.transform.row_parts import (
    KAFKA_PACKAGE,
    REPLACE_NULL_WITH_DEFAULT,
    RowPart,
    define_value_and_key,
    find_field,
)


@dataclass(frozen=True, slots=True)
class DropHeaders:
    """Removes headers by name."""

    path: str
    headers: tuple[str, ...]

    def resolve(self, dataset: str, row: Row) -> Change:
        """Remove the headers; rows without headers stay unchanged."""
        if row.get(HEADERS) is None:
            return Change()
        after = remove_headers(row, self.headers)
        kept = (after if c.name == HEADERS else OutputColumn.unchanged(c) for c in row)
        return project_columns(tuple(kept), self.path)


def _build_drop_headers(path: str, values: Mapping[str, Any]) -> Transform:
    return DropHeaders(path, values["headers"])


DROP_HEADERS: Final = (
    TypeDefinition[Transform](
        ("DropHeaders", f"{KAFKA_PACKAGE}.DropHeaders"),
        (ConfigKey("headers", "list", required=True, doc="Names of headers to remove."),),
        _build_drop_headers,
    ),
)


@dataclass(frozen=True, slots=True)
class InsertHeader:
    """Sets a header to a fixed value, which Kafka Connect reads from a text. It replaces a header
    of the same name.
    """

    path: str
    header: str
    value: str

    def resolve(self, dataset: str, row: Row) -> Change:
        """Set the header."""
        after = set_headers(row, [(self.header, parse_header(self.value))])
        kept = tuple(OutputColumn.unchanged(column) for column in row if column.name != HEADERS)
        return project_columns((*kept, after), self.path)


def _build_insert_header(path: str, values: Mapping[str, Any]) -> Transform:
    return InsertHeader(path, values["header"], values["value.literal"])


INSERT_HEADER: Final = (
    TypeDefinition[Transform](
        ("InsertHeader", f"{KAFKA_PACKAGE}.InsertHeader"),
        (
            ConfigKey("header", required=True, doc="Name of the header."),
            ConfigKey("value.literal", required=True, doc="Its value, as text."),
        ),
        _build_insert_header,
    ),
)


@dataclass(frozen=True, slots=True)
class HeaderFrom:
    """Sets headers from fields, replacing headers of the same names; `move` removes the fields."""

    path: str
    part: RowPart
    pairs: tuple[tuple[str, str], ...]
    move: bool
    defaults: bool

    def resolve(self, dataset: str, row: Row) -> Change:
        """Set the headers, and remove the moved fields."""
        read = self.part.read_fields(row, self.path, defaults=self.defaults)
        fields = read if self.move else self.part.fields(row, self.path)
        where = f"{self.path}.fields"
        values = [
            (header, format_header(find_field(read, (name,), where), where))
            for name, header in self.pairs
        ]
        moved = {name for name, _ in self.pairs} if self.move else set()
        left = tuple(field for field in fields if field.name not in moved)
        rest = self.part.replace_fields(row, left, self.path).columns or ()
        kept = tuple(output for output in rest if output.name != HEADERS)
        return project_columns((*kept, set_headers(row, values)), self.path)


def _build_header_from(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    fields, headers = values["fields"], values["headers"]
    if len(fields) != len(headers):
        raise ConfigError(
            "config.wrong_type",
            f"{len(fields)} fields and {len(headers)} headers are listed",
            fix="List as many headers as fields, in the same order.",
            config_path=f"{path}.headers",
        )
    pairs = tuple(zip(fields, headers, strict=True))
    move, defaults = values["operation"] == "move", values[REPLACE_NULL_WITH_DEFAULT.name]
    return HeaderFrom(path, part, pairs, move, defaults)


HEADER_FROM: Final = define_value_and_key(
    "HeaderFrom",
    (
        ConfigKey("fields", "list", required=True, doc="Fields to copy or move."),
        ConfigKey("headers", "list", required=True, doc="Names of their headers, in order."),
        ConfigKey("operation", required=True, choices=("move", "copy"), doc="Whether fields stay."),
        REPLACE_NULL_WITH_DEFAULT,
    ),
    _build_header_from,
)
