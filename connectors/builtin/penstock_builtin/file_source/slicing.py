"""What a reader read, as batches: decoded, named, and cut to the rows that a batch may have."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH119, PTH122

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from penstock_builtin.file_source.chunk import Chunk, Reading
from penstock_builtin.file_source.cutting import Cut, cut_lines
from penstock_builtin.file_source.declared import declared_types
from penstock_builtin.file_source.delimited import CsvDecoder, dialect_of
from penstock_builtin.file_source.encoding import EncodedDecoder, encoded_cut
from penstock_builtin.file_source.jsonl import JsonDecoder
from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.file_source.matching import MatchDecoder
from penstock_builtin.file_source.records import cut_records
from penstock_builtin.file_source.shapes import Shapes
from penstock_builtin.file_source.text import Decoded, TextDecoder
from penstock_builtin.opening import Roots
from penstock_connector import Batch


class Decoder(Protocol):
    """Makes rows of a chunk."""

    def decode(self, chunk: Chunk, dataset: str) -> Decoded:
        """Return the rows, and those that could not be read."""


def decoder_for(keys: ReadingKeys) -> Decoder:
    """Return what makes rows of lines.

    Raises:
        ConfigError: the columns mean nothing.
    """
    decoder = decoder_of_utf8(keys, Shapes())
    return decoder if keys.is_utf8 else EncodedDecoder(decoder, keys.encoding)


def decoder_of_utf8(keys: ReadingKeys, shapes: Shapes) -> Decoder:
    """Return what makes rows of lines that are UTF-8, whatever `encoding` is. `shapes` are the
    columns so far, which it adds to.

    Raises:
        ConfigError: the columns mean nothing.
    """
    types = declared_types(keys.types)
    match keys.format:
        case "csv":
            return CsvDecoder(keys, shapes)
        case "jsonl":
            return JsonDecoder(keys.invalid_utf8, keys.invalid_rows, types, shapes)
    if keys.text_regex:
        return MatchDecoder(keys.text_regex, types, keys.invalid_utf8, keys.invalid_rows)
    return TextDecoder(keys.invalid_utf8)


def reading_for(keys: ReadingKeys, roots: Roots) -> Reading:
    """Return how files of lines are read."""
    cut: Cut = cut_lines
    if keys.format == "csv":
        cut = cut_records(
            dialect_of(keys), strict=keys.invalid_rows == "fail", header=keys.csv_header
        )
    return Reading(
        roots=roots,
        cut=cut if keys.is_utf8 else encoded_cut(cut, keys.encoding),
        block=keys.block,
        line_most=keys.line_most,
        tail=keys.tail,
        restart=keys.truncated == "restart",
    )


class Slicer:
    """Makes batches for the files of a task."""

    def __init__(self, keys: ReadingKeys) -> None:
        self._decoder = decoder_for(keys)
        self._keys = keys

    def batches(self, path: str, piece: Chunk | Decoded, offset: Mapping[str, Any]) -> list[Batch]:
        """Return what was read of a file, as batches. `offset` is the place after it."""
        dataset = dataset_of(self._keys.dataset, path)
        if isinstance(piece, Chunk):
            decoded, ended = self._decoder.decode(piece, dataset), piece.complete
        else:
            decoded, ended = piece, bool(offset.get("ended"))
        last = Batch(
            rows=decoded.rows,
            partition=file_key(path),
            offset=offset,
            dataset=dataset,
            bad_rows=decoded.bad,
            finished_partition=ended and not self._keys.tail,
        )
        return cut_rows(last, decoded.rows, self._keys.batch_size)


def file_key(path: str) -> dict[str, str]:
    """Return the key of a file's partition."""
    return {"file": path}


def dataset_of(template: str, path: str) -> str:
    """Return the dataset of a file's rows."""
    if "${file}" not in template:
        return template
    name = os.path.basename(path)
    for ending in (".gz", ".zst"):
        name = name.removesuffix(ending)
    return template.replace("${file}", os.path.splitext(name)[0])


def cut_rows(batch: Batch, rows: pa.RecordBatch, most: int) -> list[Batch]:
    """Return a batch in parts of at most so many rows. The offset comes with the last: only there
    is a place to go on from.
    """
    if not most or rows.num_rows <= most:
        return [batch]
    parts = [
        Batch(rows=rows.slice(at, most), partition=batch.partition, dataset=batch.dataset)
        for at in range(0, rows.num_rows, most)
    ]
    batch.rows = parts.pop().rows
    return [*parts, batch]
