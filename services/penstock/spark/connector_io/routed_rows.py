"""Rows of a slot that go to several datasets: `__topic` names the dataset of each.

The rows of a batch are put in order of their dataset, and each run of them is written to the target
of that name, without the column. A name that the driver has not announced to the sink is reported
instead, and nothing of the attempt counts.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from penstock.model.columns import TOPIC
from penstock.model.errors import DataError

MAX_DATASETS: Final = 500
"""Datasets of the rows of a slot. Each has an open file, or a buffer at the sink."""

FitKernel: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows of a name go: their write spec, and the kernel that gives them the columns of the
    sink, None if they have them.
    """

    spec: Mapping[str, Any]
    fit: FitKernel | None = None


def routed_spec(targets: Mapping[str, Target], dataset: str) -> dict[str, Any]:
    """Return the write spec of a slot. `dataset` is the name of rows without one of their own."""
    encoded = {
        name: [
            dict(target.spec),
            base64.b64encode(cloudpickle.dumps(target.fit)).decode() if target.fit else "",
        ]
        for name, target in targets.items()
    }
    return {"kind": "routed", "dataset": dataset, "targets": encoded}


class UnknownDatasetsError(Exception):
    """Rows go to datasets that the sink does not know yet: `names`."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.names = sorted(names)


class RoutedRows:
    """The rows of a slot, by target. `counts` are the rows of each name."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._dataset = spec["dataset"]
        self.targets = {
            name: Target(one, cloudpickle.loads(base64.b64decode(fit)) if fit else None)
            for name, (one, fit) in spec["targets"].items()
        }
        self.counts: dict[str, int] = {}

    def divide(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[Mapping[str, Any], pa.RecordBatch]]:
        """Yield runs of rows with the write spec of their target, in the order of the rows.

        Raises:
            UnknownDatasetsError: after the last batch, with all unknown names.
            DataError: `transform.too_many_datasets`.
        """
        unknown: set[str] = set()
        for batch in batches:
            for name, rows in divide_by_name(batch, self._dataset):
                self.counts[name] = self.counts.get(name, 0) + rows.num_rows
                target = self.targets.get(name)
                if target is None:
                    unknown.add(name)
                elif not unknown:
                    yield target.spec, rows if target.fit is None else target.fit(rows)
                if len(self.counts) > MAX_DATASETS:
                    raise DataError(
                        "transform.too_many_datasets",
                        f"the rows of a micro-batch go to more than {MAX_DATASETS} datasets",
                        fix="Choose names that fewer rows have of their own, or set a smaller "
                        "`batch.max.rows`.",
                        config_path="transforms",
                    )
        if unknown:
            raise UnknownDatasetsError(unknown)


def sort_by_name(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows in order of the first row of their name; those of a name keep their order.
    Rows are numbered after this, so a row has its number whatever becomes of it.
    """
    if TOPIC not in batch.schema.names or not batch.num_rows:
        return batch
    codes = _codes(batch.column(TOPIC))
    if (codes[1:] >= codes[:-1]).all():
        return batch
    return batch.take(pa.array(np.argsort(codes, kind="stable")))


def divide_by_name(batch: pa.RecordBatch, dataset: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the runs of rows with one name, which is `dataset` where it is null."""
    if not batch.num_rows:
        return
    names = pc.fill_null(batch.column(TOPIC), dataset)
    codes = _codes(names)
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    rows = batch.drop_columns([TOPIC])
    for first, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        yield names[int(first)].as_py(), rows.slice(int(first), int(end - first))


def _codes(names: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    encoded = names.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
