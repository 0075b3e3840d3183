"""Files as datasets that a user may choose, with the columns of their first rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.file_source.placed import PlacedReader, Placing
from penstock_builtin.file_source.slicing import Slicer, dataset_of, reading_for
from penstock_builtin.opening import Roots
from penstock_builtin.places.port import Place
from penstock_connector import ConnectorError, Dataset, RetriableError

K = TypeVar("K", bound=ReadingKeys)


def list_files(
    keys: K, place: Place, roots: Roots, paths: Iterable[str] | None = None
) -> Iterator[Dataset]:
    """Yield the files with the columns that a task would infer: of each, one block is read. Without
    `paths`, they are those that the place finds.

    Raises:
        RetriableError: the place cannot be reached. Any other error is the problem of one file.
    """
    keys = replace(keys, tail=False)  # what is there now counts, also a line without its end
    placing, slicer = Placing(place, keys, reading_for(keys, roots)), Slicer(keys)
    try:
        if paths is None:
            paths = [found.path for found in place.find()]
        for path in paths:
            dataset = Dataset(path, dataset_of(keys.dataset, path))
            try:
                yield replace(dataset, schema=_first_columns(path, placing, slicer))
            except RetriableError:
                raise
            except ConnectorError as error:
                yield replace(dataset, problem=error)
    finally:
        place.close()


def _first_columns(path: str, placing: Placing, slicer: Slicer) -> pa.Schema | None:
    """Return the columns of the first rows of a file; None when it has none."""
    reader = PlacedReader(path, None, placing)
    try:
        piece = reader.read()
        if piece is None:
            return None
        rows = slicer.batches(path, piece, reader.offset())[0].rows
        return rows.schema if isinstance(rows, pa.RecordBatch) else None
    finally:
        reader.close()
