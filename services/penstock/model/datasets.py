"""Datasets that a source can read, such as tables and files, with their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.model.errors import Diagnostic

DEFAULT_DATASETS: Final = 1_000
MAX_DATASETS: Final = 10_000
"""Bounds of one list (invariant 12): a source looks up the columns of each dataset on its own, and
the host keeps their names to find one that comes twice."""


@dataclass(frozen=True, slots=True)
class DatasetColumn:
    """A column. `type` is an Arrow type as text: int64, decimal128(10, 2), list<item: string>."""

    name: str
    type: str
    nullable: bool = True
    key: bool = False


@dataclass(frozen=True, slots=True)
class Dataset:
    """Something that a source can read as rows.

    `name` is the one that the keys of the connector use, `dataset` the one that its rows have. No
    columns: they are not known before the rows are read, or the look-up failed with `problem`.
    `selected`: the configuration reads it.
    """

    name: str
    dataset: str = ""
    columns: tuple[DatasetColumn, ...] = ()
    selected: bool = False
    problem: Diagnostic | None = None


@dataclass(frozen=True, slots=True)
class DatasetPart:
    """A part of a list: a dataset, or its end when there are more datasets than requested."""

    dataset: Dataset | None = None
    more: bool = False


def dataset_limit(requested: int) -> int:
    """Return the number of datasets to list when so many were requested; 0: the default."""
    return min(requested or DEFAULT_DATASETS, MAX_DATASETS)
