"""ExtractNewRecordState: unwraps Debezium's envelopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import HEADERS, OP, TOPIC, TS_US, Op, is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import (
    Change,
    OutputColumn,
    Transform,
    TypeDefinition,
    project_columns,
)
from penstock.transform.envelopes.envelope import (
    AddedField,
    list_change_fields,
    operation_column,
    unwrap_fields,
)
from penstock.transform.headers import format_header, set_headers
from penstock.transform.row import Row
from penstock.transform.row_parts import check_new_name
from penstock.transform.sql import literals

_CODES: Final = {"c": Op.CREATE, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.SNAPSHOT}
_REWRITTEN: Final = {**_CODES, "d": Op.UPDATE}
_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_DELETED: Final = "__deleted"


@dataclass(frozen=True, slots=True)
class ExtractNewRecordState:
    """Replaces an envelope by the row in `after`, and for a delete by the row in `before`.

    A tombstone is a row with `__op` DELETE. The empty rows that Debezium sends behind deletes are
    dropped, except with `rewrite-with-tombstone`. For rows without an envelope that have `__op`,
    deletes are dropped or rewritten, and fields are added, as configured. Other rows without an
    envelope stay unchanged, as in Debezium.
    """

    path: str
    mode: str
    fields: tuple[AddedField, ...]
    headers: tuple[AddedField, ...]
    topic_field: str = ""

    def resolve(self, dataset: str, row: Row) -> Change:
        """Replace the envelope by its row, or handle deletes of rows that have `__op`.

        Raises:
            ConfigError: `transform.no_envelope`, `transform.no_envelope_field`: the rows have
                `__op`, and no envelope with what the configuration requires.
        """
        envelope = {column.name: OutputColumn.unchanged(column) for column in row.value}
        op, after, before = (envelope.get(name) for name in ("op", "after", "before"))
        if op is None or op.type != pa.string() or not (_is_struct(after) or _is_struct(before)):
            return (
                self._resolve_without_envelope(dataset, row)
                if row.get(OP) is not None
                else Change()
            )
        deleted = f"coalesce({op.sql} = 'd', false)"
        fields = unwrap_fields(before, after, deleted)
        outputs = [*fields, *self._added_fields(envelope, deleted), *self._name(dataset, fields)]
        outputs += self._reserved_columns(row, envelope, op)
        change = project_columns(tuple(outputs), self.path)
        kept = ["'c'", "'u'", "'r'", *(["'d'"] if self.mode != "drop" else [])]
        if self.mode == "rewrite-with-tombstone":
            kept.append("''")
        where = f"coalesce({op.sql}, '') IN ({', '.join(kept)})"
        return Change(where=where, columns=change.columns, certain=True)

    def _resolve_without_envelope(self, dataset: str, row: Row) -> Change:
        """Return the change of rows that have `__op` and no envelope."""
        if self.mode == "rewrite-with-tombstone":
            raise ConfigError(
                "transform.no_envelope",
                f"rows of {dataset!r} have no envelope: a delete is one row, which cannot become "
                "a row and a tombstone",
                fix="Set `delete.tombstone.handling.mode` to `rewrite`.",
                config_path=f"{self.path}.delete.tombstone.handling.mode",
            )
        deleted = f"coalesce({literals.name(OP)} = {Op.DELETE:d}, false)"
        where = f"NOT {deleted}" if self.mode == "drop" else None
        outputs = self._columns_without_envelope(dataset, row, deleted)
        fields = [OutputColumn.unchanged(column) for column in row.value]
        outputs += self._name(dataset, fields)
        if not outputs:
            return Change(where=where, certain=True)
        new_names = {output.name for output in outputs}
        kept = [OutputColumn.unchanged(column) for column in row if column.name not in new_names]
        change = project_columns((*kept, *outputs), self.path)
        return Change(where=where, columns=change.columns, certain=True)

    def _columns_without_envelope(self, dataset: str, row: Row, deleted: str) -> list[OutputColumn]:
        """Return the columns that are added to rows with `__op`, or replaced in them."""
        known = list_change_fields(dataset, row)
        outputs = [
            _require_known_field(added, known, f"{self.path}.add.fields") for added in self.fields
        ]
        headers = f"{self.path}.add.headers"
        values = [
            (added.name, format_header(_require_known_field(added, known, headers), headers))
            for added in self.headers
        ]
        if self._rewrites:
            text = f"CAST({deleted} AS STRING)"
            op = literals.name(OP)
            rewritten = f"CAST(CASE WHEN {deleted} THEN {Op.UPDATE:d} ELSE {op} END AS TINYINT)"
            outputs += [
                OutputColumn(_DELETED, text, pa.string(), certain=True),
                OutputColumn(OP, rewritten, pa.int8(), certain=True),
            ]
        return [*outputs, *([set_headers(row, values)] if values else [])]

    def _name(self, dataset: str, fields: Sequence[OutputColumn]) -> list[OutputColumn]:
        """Return the column with the names of rows, from the field of `route.by.field`."""
        if not self.topic_field:
            return []
        found = next((field for field in fields if field.name == self.topic_field), None)
        if found is None:
            raise ConfigError(
                "transform.unknown_column",
                f"rows of {dataset!r} have no column `{self.topic_field}`, by which they would be "
                "routed",
                fix="Name one of them: " + ", ".join(f"`{field.name}`" for field in fields) + ".",
                config_path=f"{self.path}.route.by.field",
            )
        text = f"nullif(CAST({found.sql} AS STRING), '')"
        return [OutputColumn(TOPIC, text, pa.string(), certain=True)]

    @property
    def _rewrites(self) -> bool:
        return self.mode.startswith("rewrite")

    def _added_fields(
        self, envelope: Mapping[str, OutputColumn], deleted: str
    ) -> list[OutputColumn]:
        found = [field for added in self.fields if (field := added.find_in(envelope)) is not None]
        if self._rewrites:
            text = f"CAST({deleted} AS STRING)"
            found.insert(0, OutputColumn(_DELETED, text, pa.string(), certain=True))
        return found

    def _reserved_columns(
        self, row: Row, envelope: Mapping[str, OutputColumn], op: OutputColumn
    ) -> list[OutputColumn]:
        columns = [operation_column(op.sql, _REWRITTEN if self._rewrites else _CODES)]
        if self.mode == "rewrite-with-tombstone":
            gone = f"CAST(CASE WHEN {op.sql} IS NULL THEN {Op.DELETE:d} ELSE {columns[0].sql} END"
            columns = [OutputColumn(OP, f"{gone} AS TINYINT)", pa.int8(), certain=True)]
        if row.get(TS_US) is None and (time := _event_time(envelope)) is not None:
            columns.append(time)
        values = [
            (added.name, format_header(field, f"{self.path}.add.headers"))
            for added in self.headers
            if (field := added.find_in(envelope)) is not None
        ]
        new_names = {OP, HEADERS} if values else {OP}
        kept = [
            OutputColumn.unchanged(c)
            for c in row
            if is_reserved(c.name) and c.name not in new_names
        ]
        return [*columns, *kept, *([set_headers(row, values)] if values else [])]


def _require_known_field(
    added: AddedField, known: Mapping[str, OutputColumn], path: str
) -> OutputColumn:
    name = f"{added.struct}.{added.field}" if added.struct else added.field
    found = known.get(name)
    if found is None:
        valid = ", ".join(f"`{one}`" for one in known)
        raise ConfigError(
            "transform.no_envelope_field",
            f"the rows have no envelope, and `{name}` cannot be derived from their columns",
            fix=f"Use one of these, or remove it: {valid}.",
            config_path=path,
        )
    return replace(found, name=added.name)


def _is_struct(field: OutputColumn | None) -> bool:
    return field is not None and field.type is not None and pa.types.is_struct(field.type)


def _event_time(envelope: Mapping[str, OutputColumn]) -> OutputColumn | None:
    """Return the time of the event in microseconds; None when the envelope has none."""
    for name, text in (("ts_us", "{}"), ("ts_ms", "({} * 1000L)")):
        field = envelope.get(name)
        if field is not None and field.type == pa.int64():
            return OutputColumn(TS_US, text.format(field.sql), pa.int64(), certain=name == "ts_us")
    return None


def _build_extract_new_record_state(path: str, values: Mapping[str, Any]) -> Transform:
    fields = _parse_added_fields(path, "add.fields", values)
    for added in fields:
        _check_name(added, f"{path}.add.fields")
    return ExtractNewRecordState(
        path,
        _parse_mode(path, values),
        fields,
        _parse_added_fields(path, "add.headers", values),
        values["route.by.field"] or "",
    )


def _check_name(added: AddedField, path: str) -> None:
    """Refuse a reserved name. Debezium's own example makes one: `op` with the prefix `__`."""
    try:
        check_new_name(added.name, path)
    except ConfigError as error:
        found, field = error.diagnostic, f"{added.struct}.{added.field}".lstrip(".")
        other = f"{field}:operation" if field == "op" else f"{field}:other_name"
        fix = f"Choose another name, as in `{other}`, or set `add.fields.prefix`."
        raise ConfigError(found.code, found.message, fix=fix, config_path=path) from None


def _parse_added_fields(path: str, key: str, values: Mapping[str, Any]) -> tuple[AddedField, ...]:
    prefix = values[f"{key}.prefix"]
    return tuple(AddedField.parse(text, prefix, f"{path}.{key}") for text in values[key])


def _parse_mode(path: str, values: Mapping[str, Any]) -> str:
    """Return the mode of deletes from Debezium's key or its older keys."""
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


TRANSFORMS: Final = (
    TypeDefinition[Transform](
        ("ExtractNewRecordState", "io.debezium.transforms.ExtractNewRecordState"),
        (
            ConfigKey(
                "delete.tombstone.handling.mode",
                choices=_MODES,
                doc="How deletes and tombstones are handled.",
            ),
            ConfigKey(
                "delete.handling.mode",
                choices=("none", "drop", "rewrite"),
                doc="Older key: how deletes are handled.",
            ),
            ConfigKey(
                "drop.tombstones",
                "boolean",
                default=True,
                doc="Older key: whether tombstones are dropped.",
            ),
            ConfigKey("add.fields", "list", (), doc="Fields of the envelope to add."),
            ConfigKey("add.fields.prefix", default="__", doc="Prefix of their names."),
            ConfigKey("add.headers", "list", (), doc="Fields of the envelope to add as headers."),
            ConfigKey("add.headers.prefix", default="__", doc="Prefix of their names."),
            ConfigKey(
                "route.by.field",
                default="",
                doc="Column with the name of the dataset that a row goes to.",
            ),
            ConfigKey(
                "replace.null.with.default",
                "boolean",
                default=True,
                doc="Of Debezium. A null of an envelope's row stays null.",
                no_effect="a null of an envelope's row stays null",
            ),
        ),
        _build_extract_new_record_state,
    ),
)
