"""A Delta table gets every transaction exactly once, and grows with its rows."""

import datetime as dt
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock_builtin.delta_sink import DeltaSink, DeltaSinkConfig
from penstock_builtin.delta_sink.types import table_schema
from penstock_connector import ConfigError, RetriableError, SchemaError


class Writer:
    def __init__(self, path, task="g-0", epoch=1, **config):
        self.sink = DeltaSink()
        self.sink.init(DeltaSinkConfig(path=str(path), **config))
        self.sink.connect(task, epoch)
        self.txn = 0

    def prepare(self, *batches, dataset="", txn=None):
        self.txn = txn or self.txn + 1
        staged = []
        for slot, rows in enumerate(batches):
            batch = rows if isinstance(rows, pa.RecordBatch) else pa.RecordBatch.from_pylist(rows)
            self.sink.apply_schema(dataset, batch.schema, ())
            staging = self.sink.stage(self.txn, slot, 0, dataset, batch.schema)
            assert not staging.put(batch)
            staging.close()
            staged.append(staging)
        return self.sink.prepare(self.txn, 1, staged, b"")

    def commit(self, state):
        return self.sink.commit(self.txn, 1, state)

    def write(self, *batches, **options):
        return self.commit(self.prepare(*batches, **options))


def rows_of(path):
    """The table as a reader finds it."""
    batches = DeltaTable(path).to_pyarrow_dataset().to_batches()
    return sorted((row for batch in batches for row in batch.to_pylist()), key=str)


def test_a_transaction_is_one_version_with_all_its_slots(tmp_path):
    sink = Writer(tmp_path / "t")
    info = sink.write([{"id": 1}], [{"id": 2}, {"id": 3}])
    assert rows_of(tmp_path / "t") == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert info == {f"version of {tmp_path / 't'}": "1"}
    assert sink.sink.commit_every == 1.0


def test_a_repeated_commit_adds_nothing(tmp_path):
    sink = Writer(tmp_path / "t")
    state = sink.prepare([{"id": 1}])
    for _ in range(3):
        assert sink.commit(state) == {f"version of {tmp_path / 't'}": "1"}
    again = Writer(tmp_path / "t", epoch=2)
    again.commit(state)
    assert rows_of(tmp_path / "t") == [{"id": 1}]


def test_a_prepared_transaction_is_finished_by_another_process(tmp_path):
    first = Writer(tmp_path / "t")
    first.write([{"id": 1}])
    state = first.prepare([{"id": 2}])
    second = Writer(tmp_path / "t", epoch=2)
    second.commit(state)
    second.write([{"id": 3}], txn=3)
    first.commit(state)  # the old process wakes up
    assert rows_of(tmp_path / "t") == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_rows_of_a_prepared_transaction_are_not_visible(tmp_path):
    sink = Writer(tmp_path / "t")
    sink.write([{"id": 1}])
    sink.prepare([{"id": 2}])
    assert rows_of(tmp_path / "t") == [{"id": 1}]


def test_transactions_are_added_though_the_host_counts_from_the_start_again(tmp_path):
    """Offsets may be set back by a person: a number that comes again is not the same rows."""
    Writer(tmp_path / "t").write([{"id": 1}], txn=5)
    Writer(tmp_path / "t", epoch=2).write([{"id": 2}], txn=1)
    assert rows_of(tmp_path / "t") == [{"id": 1}, {"id": 2}]


def test_new_columns_are_added_and_old_rows_have_none(tmp_path):
    sink = Writer(tmp_path / "t")
    sink.write([{"id": 1}])
    sink.write([{"id": 2, "name": "x"}])
    sink.write([{"name": "y"}])
    assert rows_of(tmp_path / "t") == sorted(
        [{"id": 1, "name": None}, {"id": 2, "name": "x"}, {"id": None, "name": "y"}], key=str
    )


def test_narrower_values_fit_and_others_are_refused(tmp_path):
    sink = Writer(tmp_path / "t")
    sink.write([{"n": 1, "s": "x"}])
    sink.write(pa.record_batch([pa.array([2], pa.int16())], ["n"]))
    assert [row["n"] for row in rows_of(tmp_path / "t")] == [1, 2]
    with pytest.raises(SchemaError) as caught:
        sink.write([{"s": 1}])
    assert caught.value.code == "delta.schema_incompatible"


def test_types_that_tables_lack_become_the_nearest(tmp_path):
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([7], pa.uint32()),
            pa.array([dt.datetime(2020, 1, 2, tzinfo=dt.UTC)], pa.timestamp("s", "UTC")),
            pa.array([dt.time(1, 2)], pa.time64("us")),
            pa.array([{"a": [1]}], pa.struct([("a", pa.list_(pa.uint8()))])),
            pa.array(["x"], pa.large_string()),
        ],
        ["n", "at", "time", "nested", "text"],
    )
    Writer(tmp_path / "t").write(batch)
    (row,) = rows_of(tmp_path / "t")
    assert (row["n"], row["nested"], row["text"]) == (7, {"a": [1]}, "x")
    assert row["time"].startswith("01:02")
    assert table_schema(batch.schema).field("n").type == pa.int64()


def test_every_topic_has_its_table_and_reserved_columns_stay_out(tmp_path):
    sink = Writer(tmp_path / "${topic}")
    sink.write([{"id": 1, "__op": 1}], dataset="a")
    sink.write([{"id": 2}], dataset="b")
    assert rows_of(tmp_path / "a") == [{"id": 1}]
    assert rows_of(tmp_path / "b") == [{"id": 2}]


def test_discarded_attempts_leave_no_file(tmp_path):
    sink = Writer(tmp_path / "t")
    batch = pa.record_batch([pa.array([1])], ["id"])
    sink.sink.apply_schema("", batch.schema, ())
    for closed in (True, False):
        staging = sink.sink.stage(1, 0, 0, "", batch.schema)
        staging.put(batch)
        if closed:
            staging.close()
        staging.discard()
    empty = sink.sink.stage(1, 0, 1, "", batch.schema)
    empty.close()
    assert json.loads(sink.sink.prepare(1, 1, [empty], b""))["tables"] == []
    assert not list((tmp_path / "t").glob("*.parquet"))


def test_what_the_library_says_is_told_as_something_to_try_again(tmp_path):
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").write_text("nonsense\n")
    with pytest.raises(RetriableError) as caught:
        Writer(tmp_path / "t").write([{"id": 1}])
    assert caught.value.code == "delta.failed"


def test_a_file_is_no_table(tmp_path):
    (tmp_path / "t").touch()
    with pytest.raises(ConfigError) as caught:
        DeltaSink.check(DeltaSinkConfig(path=str(tmp_path / "t")))
    assert caught.value.code == "delta.not_a_folder"
