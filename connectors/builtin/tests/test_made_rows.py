"""The generator and the pace of sources that make their rows."""

import pyarrow as pa
import pytest

from penstock_builtin.generator import Generator, GeneratorConfig
from penstock_builtin.pacing import Pace
from penstock_connector import ConfigError, Partition


def start(offsets=None, **config):
    source = Generator()
    source.init(GeneratorConfig(**config))
    source.connect(
        [
            Partition(p.key, offset=(offsets or {}).get(p.id))
            for p in Generator.plan(source.config, 1, [])
        ]
    )
    return source


def everything(source):
    batches = []
    while (batch := source.read_batch()) is not None:
        batches.append(batch)
    return batches


def test_it_makes_the_rows_that_are_asked_for():
    source = start(rows=1000, batch_rows=300)
    batches = everything(source)
    assert source.finished()
    assert [batch.rows.num_rows for batch in batches] == [300, 300, 300, 100]
    assert [row for b in batches for row in b.rows.column("id").to_pylist()] == list(range(1000))
    assert batches[0].rows.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert len(batches[0].rows.column("payload")[0].as_py()) == 64


def test_rows_are_spread_over_partitions():
    source = start(rows=10, partitions=3, batch_rows=100, columns=("key:id", "name", "x:number"))
    batches = everything(source)
    assert sorted(batch.rows.num_rows for batch in batches) == [3, 3, 4]
    assert batches[0].rows.schema.names == ["key", "name", "x"]


def test_it_goes_on_after_an_offset_with_the_same_rows():
    config = {"rows": 100, "batch_rows": 30, "columns": ("id", "name")}
    whole = everything(start(**config))
    key = next(iter(Generator.plan(GeneratorConfig(), 1, []))).id
    again = everything(start({key: whole[1].offset}, **config))
    assert [b.rows.to_pylist() for b in again] == [b.rows.to_pylist() for b in whole[2:]]


def test_without_rows_it_never_ends():
    source = start(batch_rows=10)
    assert all(source.read_batch() is not None for _ in range(100))
    assert not source.finished()
    assert source.remaining() == (-1, -1)


@pytest.mark.parametrize("columns", [("what",), ("a:nonsense",), ("payload:x",), ("a:id:1:2",)])
def test_columns_that_cannot_be_made_are_refused(columns):
    with pytest.raises(ConfigError):
        GeneratorConfig(columns=columns)


def test_a_pace_gives_what_is_due_and_no_more():
    now = [0.0]
    pace = Pace(100, lambda: now[0])
    assert pace.due(50) == 0
    assert pace.wait() == pytest.approx(0.1)
    now[0] = 0.05
    assert pace.due(50) == 0  # rows are given a tenth of a second together
    assert pace.due(5) == 5  # or as many as a batch holds
    now[0] = 0.25
    assert pace.due(50) == 25
    pace.gave(25)
    assert pace.due(50) == 0
    now[0] = 3600
    assert pace.due(10**6) == 100  # a pause is not made up for
    assert Pace(0).due(7) == 7


def test_a_paced_generator_waits_until_a_row_is_due():
    source = start(rows_per_second=1000, batch_rows=10)
    while source.read_batch() is not None:
        pass
    source.wait(5)
    assert source.read_batch() is not None
