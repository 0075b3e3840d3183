"""ExtractNewRecordState: rows out of Debezium's envelopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import HEADERS, OP, TS_US, Op, is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Kind, Output, Transform, projected
from penstock.transform.envelopes.unwrapping import Added, carried, of_changes, operation
from penstock.transform.headers import as_header, with_values
from penstock.transform.parts import NULLS, new_name
from penstock.transform.row import Row
from penstock.transform.sql import quoting

_CODES: Final = {"c": Op.CREATE, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.SNAPSHOT}
_REWRITTEN: Final = {**_CODES, "d": Op.UPDATE}
_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_DELETED: Final = "__deleted"


@dataclass(frozen=True, slots=True)
class ExtractNewRecordState:
    """Makes the row of what is in `after`, and of a delete of what is in `before`. A tombstone is
    here a row with `__op` DELETE; the empty rows that Debezium sends behind deletes are dropped,
    but for `rewrite-with-tombstone`. Rows that stand for changes already (`__op`) get what the keys
    ask for: deletes are dropped or rewritten, fields are added. Other rows without an envelope stay
    as they are, as in Debezium.
    """

    path: str
    mode: str
    fields: tuple[Added, ...]
    headers: tuple[Added, ...]

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset.

        Raises:
            ConfigError: `transform.no_envelope`, `transform.no_envelope_field`: the rows stand for
                changes, and have no envelope from which this could be made.
        """
        envelope = {column.name: Output.kept(column) for column in row.value}
        op, after, before = (envelope.get(name) for name in ("op", "after", "before"))
        if op is None or op.type != pa.string() or not (_struct(after) or _struct(before)):
            return self._unwrapped(dataset, row) if row.get(OP) is not None else Change()
        deleted = f"coalesce({op.sql} = 'd', false)"
        outputs = [*carried(before, after, deleted), *self._added(envelope, deleted)]
        outputs += self._reserved(row, envelope, op)
        change = projected(tuple(outputs), self.path)
        kept = ["'c'", "'u'", "'r'", *(["'d'"] if self.mode != "drop" else [])]
        if self.mode == "rewrite-with-tombstone":
            kept.append("''")
        where = f"coalesce({op.sql}, '') IN ({', '.join(kept)})"
        return Change(where=where, columns=change.columns, certain=True)

    def _unwrapped(self, dataset: str, row: Row) -> Change:
        """Return the change of rows that were never in an envelope, and have `__op`."""
        if self.mode == "rewrite-with-tombstone":
            raise ConfigError(
                "transform.no_envelope",
                f"a delete of {dataset!r} is one row, and cannot become a row and a tombstone",
                fix="Set `delete.tombstone.handling.mode` to `rewrite`.",
                config_path=f"{self.path}.delete.tombstone.handling.mode",
            )
        deleted = f"coalesce({quoting.name(OP)} = {Op.DELETE:d}, false)"
        where = f"NOT {deleted}" if self.mode == "drop" else None
        outputs = self._of_changes(dataset, row, deleted)
        if not outputs:
            return Change(where=where, certain=True)
        made = {output.name for output in outputs}
        kept = [Output.kept(column) for column in row if column.name not in made]
        change = projected((*kept, *outputs), self.path)
        return Change(where=where, columns=change.columns, certain=True)

    def _of_changes(self, dataset: str, row: Row, deleted: str) -> list[Output]:
        """Return the columns that rows with `__op` get, or get anew."""
        known = of_changes(dataset, row)
        outputs = [_asked(added, known, f"{self.path}.add.fields") for added in self.fields]
        headers = f"{self.path}.add.headers"
        values = [
            (added.name, as_header(_asked(added, known, headers), headers))
            for added in self.headers
        ]
        if self._rewrites:
            text = f"CAST({deleted} AS STRING)"
            op = quoting.name(OP)
            rewritten = f"CAST(CASE WHEN {deleted} THEN {Op.UPDATE:d} ELSE {op} END AS TINYINT)"
            outputs += [
                Output(_DELETED, text, pa.string(), certain=True),
                Output(OP, rewritten, pa.int8(), certain=True),
            ]
        return [*outputs, *([with_values(row, values)] if values else [])]

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


def _asked(added: Added, known: Mapping[str, Output], path: str) -> Output:
    name = f"{added.struct}.{added.field}" if added.struct else added.field
    found = known.get(name)
    if found is None:
        there = ", ".join(f"`{one}`" for one in known)
        raise ConfigError(
            "transform.no_envelope_field",
            f"the rows have no envelope, and nothing tells their `{name}`",
            fix=f"Take one of these, or leave it out: {there}.",
            config_path=path,
        )
    return replace(found, name=added.name)


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
        _check_name(added, f"{path}.add.fields")
    return ExtractNewRecordState(
        path, _mode(path, values), fields, _listed(path, "add.headers", values)
    )


def _check_name(added: Added, path: str) -> None:
    """Refuse a reserved name. Debezium's own example has one: `op`, behind the prefix `__`."""
    try:
        new_name(added.name, path)
    except ConfigError as error:
        found, field = error.diagnostic, f"{added.struct}.{added.field}".lstrip(".")
        other = f"{field}:operation" if field == "op" else f"{field}:other_name"
        fix = f"Name it otherwise, as in `{other}`, or set `add.fields.prefix`."
        raise ConfigError(found.code, found.message, fix=fix, config_path=path) from None


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
