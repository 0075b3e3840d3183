"""InsertField: adds metadata of the row, or a fixed text, as fields of its value or key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import OFFSET, PARTITION, TS_US
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Output, Transform
from penstock.transform.column_kernel import Constant
from penstock.transform.parts import NULLS, Part, halves, new_name
from penstock.transform.row import Row
from penstock.transform.sql import quoting

_INSTANT: Final = pa.timestamp("us", "UTC")
"""A timestamp of Spark's: the engine's time zone is UTC."""

_OPTIONAL: Final = "Suffix `!` makes it a required field, `?` an optional one (the default)."


@dataclass(frozen=True, slots=True)
class Insertion:
    """A field to insert: its name, and whether null is refused."""

    key: str
    name: str
    required: bool

    @staticmethod
    def parse(key: str, text: str, path: str) -> Insertion:
        """Return what `name`, `name?` or `name!` asks for."""
        name = text[:-1] if text.endswith(("!", "?")) else text
        return Insertion(key, new_name(name, f"{path}.{key}"), text.endswith("!"))


@dataclass(frozen=True, slots=True)
class InsertField:
    """Adds fields at the end of the row or its key, in Kafka's order."""

    path: str
    part: Part
    insertions: tuple[Insertion, ...]
    static_value: str | None

    @property
    def wants_places(self) -> bool:
        """Whether it inserts where a row stands in its topic."""
        return any(one.key in {"partition.field", "offset.field"} for one in self.insertions)

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        new = (self._output(insertion, dataset, row) for insertion in self.insertions)
        fields = (*self.part.fields(row, self.path), *new)
        return self.part.rebuilt(row, fields, self.path)

    def _output(self, insertion: Insertion, dataset: str, row: Row) -> Output:
        match insertion.key:
            case "topic.field":
                return _constant(insertion.name, dataset)
            case "static.field":
                return _constant(insertion.name, self.static_value or "")
        return self._metadata(insertion, row)

    def _metadata(self, insertion: Insertion, row: Row) -> Output:
        column, missing = _COLUMNS[insertion.key]
        there = row.get(column)
        if there is not None:
            text, type_ = _READ[insertion.key](there.type)
        elif insertion.required or missing is None:
            raise ConfigError(
                "transform.no_metadata",
                f"the rows have no `{column}` to insert",
                fix="Remove it, or use a source or topic that gives it.",
                config_path=f"{self.path}.{insertion.key}",
            )
        else:
            text, type_ = f"CAST(NULL AS {missing})", None
        if insertion.required:
            where = quoting.literal(f"{self.path}.{insertion.key}: null in a required field")
            text = f"coalesce({text}, raise_error({where}))"
        return Output(insertion.name, text, type_, certain=not insertion.required)


def _constant(name: str, value: str) -> Output:
    return Output(name, quoting.literal(value), pa.string(), Constant(value), certain=True)


def _timestamp(type_: pa.DataType | None) -> tuple[str, pa.DataType | None]:
    column = quoting.name(TS_US)
    whole = type_ is None or pa.types.is_integer(type_)
    return (f"timestamp_micros({column})", _INSTANT) if whole else (column, type_)


def _offset(type_: pa.DataType | None) -> tuple[str, pa.DataType | None]:
    column = quoting.name(OFFSET)
    if type_ is not None and (pa.types.is_binary(type_) or pa.types.is_large_binary(type_)):
        return f"CAST({column} AS STRING)", pa.string()
    return column, type_


def _partition(type_: pa.DataType | None) -> tuple[str, pa.DataType | None]:
    return quoting.name(PARTITION), type_


_COLUMNS: Final[Mapping[str, tuple[str, str | None]]] = {
    "partition.field": (PARTITION, "INT"),
    "offset.field": (OFFSET, None),
    "timestamp.field": (TS_US, "TIMESTAMP"),
}
"""Where a field comes from, and the type of its null where that column is missing; None refuses: as
in Kafka, an offset can be inserted only where there is one."""

_READ: Final = {
    "partition.field": _partition,
    "offset.field": _offset,
    "timestamp.field": _timestamp,
}

_KEYS: Final = (
    ConfigKey("topic.field", doc=f"Field for the dataset or topic. {_OPTIONAL}"),
    ConfigKey("partition.field", doc=f"Field for the topic partition. {_OPTIONAL}"),
    ConfigKey("offset.field", doc=f"Field for the offset. {_OPTIONAL}"),
    ConfigKey("timestamp.field", doc=f"Field for the time of the row. {_OPTIONAL}"),
    ConfigKey("static.field", doc=f"Field for a fixed text. {_OPTIONAL}"),
    ConfigKey("static.value", doc="The fixed text."),
    NULLS,
)


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    insertions = tuple(_insertions(path, values))
    if not insertions:
        raise ConfigError(
            "config.missing",
            "InsertField inserts nothing",
            fix="Set at least one of its `….field` keys.",
            config_path=path,
        )
    static = values["static.value"]
    if (static is None) != (values["static.field"] is None):
        absent = "static.value" if static is None else "static.field"
        raise ConfigError(
            "config.missing",
            "`static.field` and `static.value` need each other",
            fix=f"Set `{absent}`.",
            config_path=f"{path}.{absent}",
        )
    return InsertField(path, part, insertions, static)


def _insertions(path: str, values: Mapping[str, Any]) -> Iterator[Insertion]:
    for key in _KEYS:
        if key.name.endswith(".field") and values[key.name] is not None:
            yield Insertion.parse(key.name, values[key.name], path)


KINDS: Final = halves("InsertField", _KEYS, _build)
