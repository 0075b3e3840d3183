"""The rows that sources of metrics give: one schema, which `prometheus-sink` takes as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

LABELS: Final = pa.map_(pa.string(), pa.string())
SCHEMA: Final = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("labels", LABELS, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("type", pa.string(), nullable=False),
    ]
)


def to_rows(
    names: pa.StringArray,
    labels: Sequence[Mapping[str, str]],
    codes: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    times: npt.NDArray[np.int64],
    types: pa.StringArray,
) -> pa.RecordBatch:
    """Return samples as rows.

    Args:
        names: Name of each.
        labels: Distinct label pairs; empty values are no labels.
        codes: The place in `labels` of each.
        values: The values.
        times: Milliseconds since 1970.
        types: The type of each.
    """
    pairs = [sorted((name, text) for name, text in one.items() if text) for one in labels]
    distinct = pa.array(pairs, LABELS)
    columns: list[Any] = [
        names,
        distinct.take(pa.array(codes)),
        pa.array(values),
        pa.array(times).cast(SCHEMA.field("timestamp").type),
        types,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def types_of(names: pa.StringArray, type_of: Any) -> pa.StringArray:
    """Return the type of each name; each distinct one is asked for once."""
    encoded = pc.dictionary_encode(names)
    words = [type_of(name) for name in encoded.dictionary.to_pylist()]
    return pa.array(words, pa.string()).take(encoded.indices)
