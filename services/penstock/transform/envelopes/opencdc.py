"""UnwrapOpenCDC: rows out of OpenCDC records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import HEADERS, KEY, Op, is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Kind, Output, Transform, projected
from penstock.transform.envelopes.unwrapping import carried, operation
from penstock.transform.headers import TYPE
from penstock.transform.parts import members
from penstock.transform.row import Row

_CODES: Final = {
    "create": Op.CREATE,
    "update": Op.UPDATE,
    "delete": Op.DELETE,
    "snapshot": Op.SNAPSHOT,
}
_TEXTS: Final = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class UnwrapOpenCDC:
    """Makes the row of `payload.after`, and of a delete of `payload.before`; `key` and `metadata`
    become the key and the headers. The position of the record itself stays that of the row.
    """

    path: str
    field: str

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        record = {field.name: field for field in self._record(row)}
        code, payload = record.get("operation"), record.get("payload")
        if code is None or payload is None or code.type != pa.string() or not members(payload):
            raise self._no_record()
        change = {field.name: field for field in members(payload)}
        fields = carried(
            change.get("before"), change.get("after"), f"coalesce({code.sql} = 'delete', false)"
        )
        if not fields:
            raise self._no_record()
        made = [operation(code.sql, _CODES), *_beside(record)]
        names = {output.name for output in made}
        kept = [Output.kept(c) for c in row if is_reserved(c.name) and c.name not in names]
        return projected((*fields, *made, *kept), self.path)

    def _record(self, row: Row) -> tuple[Output, ...]:
        if not self.field:
            return tuple(Output.kept(column) for column in row.value)
        return members(Output.kept(row.require(self.field, f"{self.path}.field")))

    def _no_record(self) -> ConfigError:
        return ConfigError(
            "transform.not_an_envelope",
            "the rows are no OpenCDC records: they want `operation`, a text, and `payload`, a "
            "struct of the structs `before` and `after`",
            fix="Name the column that has the record in `field`.",
            config_path=f"{self.path}.field",
        )


def _beside(record: Mapping[str, Output]) -> list[Output]:
    """Return the key and the headers, where a record has them."""
    found = []
    key, metadata = record.get("key"), record.get("metadata")
    if key is not None:
        found.append(Output(KEY, key.sql, key.type, certain=True))
    if metadata is not None and metadata.type == _TEXTS:
        text = f"transform_values({metadata.sql}, (k, v) -> encode(v, 'UTF-8'))"
        found.append(Output(HEADERS, text, TYPE, certain=True))
    return found


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    return UnwrapOpenCDC(path, values["field"])


KINDS: Final = (
    Kind[Transform](
        ("UnwrapOpenCDC", "unwrap.opencdc"),
        (ConfigKey("field", default="", doc="Column with the record; empty: the row is it."),),
        _build,
    ),
)
