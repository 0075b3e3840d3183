"""Pieces of bytes as messages, each where its value was. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock_converters import Encoded, reject


def to_messages(pieces: pa.Array, values: pa.Array, failed: Mapping[int, str]) -> Encoded:
    """Return the messages of values.

    Args:
        pieces: The bytes of the values that are not null.
        values: The values.
        failed: By the place of a piece, why it is none.
    """
    messages = pieces.cast(pa.binary())
    if not failed and not values.null_count:
        return Encoded(messages)
    absent = np.asarray(values.is_null())
    places = np.cumsum(~absent) - 1
    (rows,) = np.nonzero(~absent)
    rejected = tuple(
        reject(
            int(rows[at]),
            "converter.not_exact",
            f"the value cannot be written: {failed[at]}",
            "Cast or fill the column in a transform.",
        )
        for at in sorted(failed)
    )
    absent[[row for row, _ in rejected]] = True
    return Encoded(messages.take(pa.array(places, mask=absent)), rejected)
