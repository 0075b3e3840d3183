"""The port of formats: rows of an opened file from an offset on. Implementations: `lines`,
`columnar`, `avro`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock_builtin.file_source.chunk import Chunk, Reading
from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.file_source.text import Decoded
from penstock_builtin.places.port import Opened


class OtherFile(Exception):  # noqa: N818 - it is no error, but an answer
    """The file is not the one that an offset is of, or became shorter."""


class NotYet(Exception):  # noqa: N818 - as above
    """What is there ends in the middle of something that may still be written."""


class Content(Protocol):
    """Rows of an opened file."""

    @property
    def ended(self) -> bool:
        """Nothing is left of the file as it was opened."""

    def next(self) -> Chunk | Decoded | None:
        """Return the next rows, or None when there are none now.

        Raises:
            OtherFile: what was read of it is not there any more.
            NotYet: see above.
            DataError: the file is broken.
        """

    def offset(self) -> dict[str, Any]:
        """Return where it stands."""

    def last_words(self) -> Chunk | None:
        """Return a last line without a newline, of a file that nobody will end any more."""


def content_of(
    opened: Opened, offset: Mapping[str, Any], keys: ReadingKeys, how: Reading, *, final: bool
) -> Content:
    """Return the rows of a file from an offset on.

    Args:
        opened: The file.
        offset: As it was stored; empty for the beginning.
        keys: What the file is.
        how: How lines are read.
        final: Nobody goes on writing to it: its last line needs no newline.

    Raises:
        OtherFile: the offset is not of this file.
        NotYet: it is not even begun.
        DataError: it is broken.
    """
    if keys.has_lines:
        from penstock_builtin.file_source.lines import LinesContent  # noqa: PLC0415 - with the others

        return LinesContent(
            opened, offset, how, keys.compression_of(opened.found.path), final=final
        )
    from penstock_builtin.file_source.microseconds import MicrosecondContent  # noqa: PLC0415 - as above

    rows = _rows_of(opened, offset, keys, how, final=final)
    return MicrosecondContent(rows, opened.found.path, keys)


def _rows_of(
    opened: Opened, offset: Mapping[str, Any], keys: ReadingKeys, how: Reading, *, final: bool
) -> Content:
    if keys.format == "parquet":
        from penstock_builtin.file_source.columnar import ParquetContent  # noqa: PLC0415 - slow

        return ParquetContent(opened, offset, how.block, final=final)
    from penstock_builtin.file_source.avro import AvroContent  # noqa: PLC0415 - an extra

    return AvroContent(opened, offset, how.block, final=final)
