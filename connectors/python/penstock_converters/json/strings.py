"""JSON texts without escapes, `"like this"`, to strings: many messages at once, without a parser.

Values of lines, names and ids are mostly such texts; all others are left to the parsers. Pure.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_converters.ragged import Bools

PLAIN: Final = r'^"[^"\\\x00-\x1f]*"$'
"""A JSON text without an escape."""

_ASCII: Final = r'^"[\x20\x21\x23-\x5b\x5d-\x7f]*"$'


def are_plain(texts: pa.Array) -> Bools:
    """Return which texts (bytes) are such; false for null. Where some are no UTF-8, only those of
    ASCII are.
    """
    try:
        found = pc.match_substring_regex(texts.cast(pa.string()), PLAIN)
    except pa.ArrowInvalid:
        found = pc.match_substring_regex(texts, _ASCII)
    return np.asarray(pc.fill_null(found, fill_value=False))


def to_strings(texts: pa.Array) -> pa.Array:
    """Return the strings that plain texts mean."""
    inner = pc.binary_slice(texts, 1, -1) if len(texts) else texts
    return inner.cast(pa.string())
