"""UnwrapOpenCDC: unwraps OpenCDC records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import HEADERS, KEY, Op, is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import (
    Change,
    OutputColumn,
    Transform,
    TypeDefinition,
    project_columns,
)
from penstock.transform.envelopes.envelope import operation_column, unwrap_fields
from penstock.transform.headers import HEADERS_TYPE
from penstock.transform.row import Row
from penstock.transform.row_parts import struct_fields

_CODES: Final = {
    "create": Op.CREATE,
    "update": Op.UPDATE,
    "delete": Op.DELETE,
    "snapshot": Op.SNAPSHOT,
}
_TEXTS: Final = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class UnwrapOpenCDC:
    """Replaces a record by the row in `payload.after`, and for a delete by that in
    `payload.before`. `key` and `metadata` become the key and the headers. The offset of the row
    stays that of the record.
    """

    path: str
    field: str

    def resolve(self, dataset: str, row: Row) -> Change:
        """Replace the record by its row."""
        record = {field.name: field for field in self._record(row)}
        code, payload = record.get("operation"), record.get("payload")
        if (
            code is None
            or payload is None
            or code.type != pa.string()
            or not struct_fields(payload)
        ):
            raise self._not_an_envelope()
        change = {field.name: field for field in struct_fields(payload)}
        fields = unwrap_fields(
            change.get("before"), change.get("after"), f"coalesce({code.sql} = 'delete', false)"
        )
        if not fields:
            raise self._not_an_envelope()
        added = [operation_column(code.sql, _CODES), *_key_and_headers(record)]
        names = {output.name for output in added}
        kept = [
            OutputColumn.unchanged(c) for c in row if is_reserved(c.name) and c.name not in names
        ]
        return project_columns((*fields, *added, *kept), self.path)

    def _record(self, row: Row) -> tuple[OutputColumn, ...]:
        if not self.field:
            return tuple(OutputColumn.unchanged(column) for column in row.value)
        return struct_fields(OutputColumn.unchanged(row.require(self.field, f"{self.path}.field")))

    def _not_an_envelope(self) -> ConfigError:
        return ConfigError(
            "transform.not_an_envelope",
            "the rows are not OpenCDC records: expected `operation`, a text, and `payload`, a "
            "struct of the structs `before` and `after`",
            fix="Set `field` to the column that has the record.",
            config_path=f"{self.path}.field",
        )


def _key_and_headers(record: Mapping[str, OutputColumn]) -> list[OutputColumn]:
    """Return the columns of the key and the headers, if the record has them."""
    found = []
    key, metadata = record.get("key"), record.get("metadata")
    if key is not None:
        found.append(OutputColumn(KEY, key.sql, key.type, certain=True))
    if metadata is not None and metadata.type == _TEXTS:
        text = f"transform_values({metadata.sql}, (k, v) -> encode(v, 'UTF-8'))"
        found.append(OutputColumn(HEADERS, text, HEADERS_TYPE, certain=True))
    return found


def _build_unwrap_opencdc(path: str, values: Mapping[str, Any]) -> Transform:
    return UnwrapOpenCDC(path, values["field"])


TRANSFORMS: Final = (
    TypeDefinition[Transform](
        ("UnwrapOpenCDC", "unwrap.opencdc"),
        (ConfigKey("field", default="", doc="Column with the record; empty: the whole row."),),
        _build_unwrap_opencdc,
    ),
)
