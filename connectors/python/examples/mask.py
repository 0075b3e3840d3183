"""A transform that hides columns: the smallest one that has a key."""

from dataclasses import dataclass

import pyarrow as pa

from penstock_connector import Transform, key, serve


@dataclass(frozen=True)
class MaskConfig:
    """Keys of the transform."""

    columns: tuple[str, ...] = key(doc="Columns to hide.", required=True)


class Mask(Transform[MaskConfig]):
    """Writes *** for the texts of some columns."""

    name = "mask"

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Make the columns texts."""
        for number, field in enumerate(schema):
            if field.name in self.config.columns:
                schema = schema.set(number, field.with_type(pa.string()))
        return schema

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Hide them."""
        hidden = pa.repeat("***", rows.num_rows)
        columns = [
            hidden if name in self.config.columns else rows.column(name)
            for name in rows.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(rows.schema))


if __name__ == "__main__":
    serve(Mask)
