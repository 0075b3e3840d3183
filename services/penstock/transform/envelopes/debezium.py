"""ExtractNewRecordState: rows out of Debezium's envelopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import HEADERS, OP, TS_US, Op, is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Kind, Output, Transform, projected
from penstock.transform.envelopes.added import Added
from penstock.transform.envelopes.unwrapping import carried, operation
from penstock.transform.headers import as_header, with_values
from penstock.transform.part import NULLS, new_name
from penstock.transform.row import Row

_CODES: Final = {"c": Op.CREATE, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.SNAPSHOT}
_REWRITTEN: Final = {**_CODES, "d": Op.UPDATE}
_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_DELETED: Final = "__deleted"


@dataclass(frozen=True, slots=True)
class ExtractNewRecordState:
    """Makes the row of what is in `after`, and of a delete of what is in `before`. A tombstone is
    here a row with `__op` DELETE; the empty rows that Debezium sends behind deletes are dropped,
    but for `rewrite-with-tombstone`. Rows without an envelope stay as they are, as in Debezium.
    """

    path: str
    mode: str
    fields: tuple[Added, ...]
    headers: tuple[Added, ...]

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        envelope = {column.name: Output.kept(column) for column in row.value}
        op, after, before = (envelope.get(name) for name in ("op", "after", "before"))
        if op is None or op.type != pa.string() or not (_struct(after) or _struct(before)):
            return Change()
        deleted = f"coalesce({op.sql} = 'd', false)"
        outputs = [*carried(before, after, deleted), *self._added(envelope, deleted)]
        outputs += self._reserved(row, envelope, op)
        change = projected(tuple(outputs), self.path)
        kept = ["'c'", "'u'", "'r'", *(["'d'"] if self.mode != "drop" else [])]
        if self.mode == "rewrite-with-tombstone":
            kept.append("''")
        where = f"coalesce({op.sql}, '') IN ({', '.join(kept)})"
        return Change(where=where, columns=change.columns, certain=True)

    @property
    def _rewrites(self) -> bool:
        return self.mode.startswith("rewrite")

    def _added(self, envelope: Mapping[str, Output], deleted: str) -> list[Output]:
        found = [field for added in self.fields if (field := added.of(envelope)) is not None]
        if self._rewrites:
            text = f"CAST({deleted} AS STRING)"
            found.insert(0, Output(_DELETED, text, pa.string(), certain=True))
        return found

    def _reserved(self, row: Row, envelope: Mapping[str, Output], op: Output) -> list[Output]:
        columns = [operation(op.sql, _REWRITTEN if self._rewrites else _CODES)]
        if self.mode == "rewrite-with-tombstone":
            gone = f"CAST(CASE WHEN {op.sql} IS NULL THEN {Op.DELETE:d} ELSE {columns[0].sql} END"
            columns = [Output(OP, f"{gone} AS TINYINT)", pa.int8(), certain=True)]
        if row.get(TS_US) is None and (time := _time(envelope)) is not None:
            columns.append(time)
        values = [
            (added.name, as_header(field, f"{self.path}.add.headers"))
            for added in self.headers
            if (field := added.of(envelope)) is not None
        ]
        made = {OP, HEADERS} if values else {OP}
        kept = [Output.kept(c) for c in row if is_reserved(c.name) and c.name not in made]
        return [*columns, *kept, *([with_values(row, values)] if values else [])]


def _struct(field: Output | None) -> bool:
    return field is not None and field.type is not None and pa.types.is_struct(field.type)


def _time(envelope: Mapping[str, Output]) -> Output | None:
    """Return the time of the event in microseconds, where the envelope has one."""
    for name, text in (("ts_us", "{}"), ("ts_ms", "({} * 1000L)")):
        field = envelope.get(name)
        if field is not None and field.type == pa.int64():
            return Output(TS_US, text.format(field.sql), pa.int64(), certain=name == "ts_us")
    return None


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    if values["route.by.field"]:
        raise ConfigError(
            "transform.route_per_row",
            "`route.by.field` would send rows of one dataset to many places: that cannot be done",
            fix="Remove it; RegexRouter routes datasets by their names.",
            config_path=f"{path}.route.by.field",
        )
    fields = _listed(path, "add.fields", values)
    for added in fields:
        new_name(added.name, f"{path}.add.fields")
    return ExtractNewRecordState(
        path, _mode(path, values), fields, _listed(path, "add.headers", values)
    )


def _listed(path: str, key: str, values: Mapping[str, Any]) -> tuple[Added, ...]:
    prefix = values[f"{key}.prefix"]
    return tuple(Added.parse(text, prefix, f"{path}.{key}") for text in values[key])


def _mode(path: str, values: Mapping[str, Any]) -> str:
    """Return how deletes are handled: the mode, or what Debezium's older keys say."""
    mode: str | None = values["delete.tombstone.handling.mode"]
    old, drops = values["delete.handling.mode"], values["drop.tombstones"]
    if mode is not None and old is not None:
        raise ConfigError(
            "config.bad_choice",
            "`delete.handling.mode` is the older name of `delete.tombstone.handling.mode`",
            fix="Remove one of them.",
            config_path=f"{path}.delete.handling.mode",
        )
    if old == "rewrite":
        return "rewrite" if drops else "rewrite-with-tombstone"
    return mode or ("drop" if old == "drop" else "tombstone")


KINDS: Final = (
    Kind[Transform](
        ("ExtractNewRecordState", "io.debezium.transforms.ExtractNewRecordState"),
        (
            ConfigKey("delete.tombstone.handling.mode", choices=_MODES, doc="What deletes become."),
            ConfigKey(
                "delete.handling.mode", choices=("none", "drop", "rewrite"), doc="Its older name."
            ),
            ConfigKey("drop.tombstones", "boolean", default=True, doc="Of the older name, too."),
            ConfigKey("add.fields", "list", (), doc="Fields of the envelope to add."),
            ConfigKey("add.fields.prefix", default="__", doc="Prefix of their names."),
            ConfigKey("add.headers", "list", (), doc="Fields of the envelope for headers."),
            ConfigKey("add.headers.prefix", default="__", doc="Prefix of their names."),
            ConfigKey("route.by.field", default="", doc="Refused: rows are not routed one by one."),
            NULLS,
        ),
        _build,
    ),
)
