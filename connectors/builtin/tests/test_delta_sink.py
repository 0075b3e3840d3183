"""A Delta table gets every transaction exactly once, and grows with its rows."""

import datetime as dt
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock_builtin.delta_sink import DeltaSink, DeltaSinkConfig
from penstock_builtin.delta_sink.types import table_schema
from penstock_connector import ConfigError, Op, RetriableError, SchemaError


class Writer:
    def __init__(self, path, task="g-0", epoch=1, **config):
        self.sink = DeltaSink()
        self.sink.init(DeltaSinkConfig(path=str(path), **config))
        self.sink.connect(task, epoch)
        self.txn = 0
        self.key = ()
        self.refused = []

    def prepare(self, *batches, dataset="", txn=None):
        self.txn = txn or self.txn + 1
        staged = []
        for slot, rows in enumerate(batches):
            batch = rows if isinstance(rows, pa.RecordBatch) else pa.RecordBatch.from_pylist(rows)
            self.sink.apply_schema(dataset, batch.schema, self.key)
            staging = self.sink.stage(self.txn, slot, 0, dataset, batch.schema)
            self.refused += [(row, error.code) for row, error in staging.put(batch) or ()]
            staging.close()
            staged.append(staging)
        return self.sink.prepare(self.txn, 1, staged, b"")

    def commit(self, state):
        self.sink.commit(self.txn, 1, state)

    def merge(self, *batches, **options):
        """Write rows with their operations beside them."""
        made = []
        for rows in batches:
            batch = pa.RecordBatch.from_pylist([row for _, row in rows])
            ops = pa.array([int(op) for op, _ in rows], pa.int8())
            made.append(batch.append_column("__op", ops))
        self.write(*made, **options)

    def write(self, *batches, **options):
        self.commit(self.prepare(*batches, **options))


def rows_of(path):
    """The table as a reader finds it."""
    batches = DeltaTable(path).to_pyarrow_dataset().to_batches()
    return sorted((row for batch in batches for row in batch.to_pylist()), key=str)


def test_a_transaction_is_one_version_with_all_its_slots(tmp_path):
    sink = Writer(tmp_path / "t")
    sink.write([{"id": 1}], [{"id": 2}, {"id": 3}])
    assert rows_of(tmp_path / "t") == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert DeltaTable(tmp_path / "t").version() == 1
    assert sink.sink.commit_every == 1.0


def test_a_repeated_commit_adds_nothing(tmp_path):
    sink = Writer(tmp_path / "t")
    state = sink.prepare([{"id": 1}])
    for _ in range(3):
        sink.commit(state)
        assert DeltaTable(tmp_path / "t").version() == 1
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


# ── changes ──────────────────────────────────────────────────────────────────────────────────────


def test_rows_that_are_added_are_no_changes(tmp_path):
    sink = Writer(tmp_path / "t")
    sink.merge([(Op.CREATE, {"id": 1}), (Op.SNAPSHOT, {"id": 2}), (Op.UNSPECIFIED, {"id": 3})])
    assert sink.refused == []
    assert [row["id"] for row in rows_of(tmp_path / "t")] == [1, 2, 3]


@pytest.mark.parametrize("op", [Op.UPDATE, Op.DELETE, Op.UPSERT, Op.PATCH, Op.TRUNCATE])
def test_a_change_is_refused_where_rows_are_added(tmp_path, op):
    sink = Writer(tmp_path / "t")
    sink.merge([(Op.CREATE, {"id": 1}), (op, {"id": 1}), (Op.CREATE, {"id": 2})])
    assert sink.refused == [(1, "delta.change")]
    assert [row["id"] for row in rows_of(tmp_path / "t")] == [1, 2]


def test_changes_are_added_as_rows_that_say_what_they_are(tmp_path):
    named = Writer(tmp_path / "named", operation_column="op")
    kept = Writer(tmp_path / "kept", reserved_columns=True)
    for sink in (named, kept):
        sink.merge([(Op.CREATE, {"id": 1}), (Op.DELETE, {"id": 1})])
        assert sink.refused == []
    assert rows_of(tmp_path / "named") == [{"id": 1, "op": "create"}, {"id": 1, "op": "delete"}]
    assert rows_of(tmp_path / "kept") == [{"id": 1, "__op": 1}, {"id": 1, "__op": 3}]
    with pytest.raises(SchemaError) as caught:
        named.merge([(Op.CREATE, {"id": 1, "op": "x"})])
    assert caught.value.code == "sink.operation_column"


def upserting(path, **config):
    return Writer(path, write_mode="upsert", **config)


def test_the_last_row_of_each_key_stays_and_deletes_delete(tmp_path):
    sink = upserting(tmp_path / "t", pk_fields=("id",))
    de, ch, at = ({"id": id_, "name": name} for id_, name in ((1, "DE"), (2, "CH"), (3, "AT")))
    sink.merge([(Op.SNAPSHOT, de), (Op.SNAPSHOT, ch)])
    sink.merge(
        [(Op.UPDATE, {"id": 1, "name": "DE!"}), (Op.CREATE, at), (Op.DELETE, at)],
        [(Op.DELETE, ch), (Op.UPDATE, {"id": 1, "name": "DE!!"})],
    )
    assert rows_of(tmp_path / "t") == [{"id": 1, "name": "DE!!"}]
    sink.merge([(Op.DELETE, de)], [(Op.CREATE, de)])
    assert rows_of(tmp_path / "t") == [de]
    assert [path.name for path in (tmp_path / "t").glob("part-g-0-*")] == []


def test_a_truncation_empties_the_table_in_its_place(tmp_path):
    sink = upserting(tmp_path / "t", pk_fields=("id",))
    sink.merge([(Op.CREATE, {"id": id_}) for id_ in (1, 2, 3)])
    sink.merge(
        [(Op.CREATE, {"id": 4}), (Op.TRUNCATE, {"id": None}), (Op.CREATE, {"id": 2})],
        [(Op.CREATE, {"id": 5})],
    )
    assert sink.refused == []
    assert rows_of(tmp_path / "t") == [{"id": 2}, {"id": 5}]
    sink.merge([(Op.CREATE, {"id": 9}), (Op.TRUNCATE, {"id": None})])
    assert rows_of(tmp_path / "t") == []


def test_a_merge_that_is_repeated_or_changes_nothing_is_done_once(tmp_path):
    sink = upserting(tmp_path / "t", pk_fields=("id",))
    state = sink.prepare([{"id": 1, "n": 1}])
    versions = set()
    for _ in range(3):
        sink.commit(state)
        versions.add(DeltaTable(tmp_path / "t").version())
    assert len(versions) == 1
    gone = pa.record_batch([pa.array([7]), pa.array([0]), pa.array([3], pa.int8())],
                           ["id", "n", "__op"])  # fmt: skip
    nothing = sink.prepare(gone)
    sink.commit(nothing)
    second = upserting(tmp_path / "t", pk_fields=("id",), epoch=2)
    second.write([{"id": 1, "n": 2}])
    for late in (state, nothing):  # an old process wakes up: its files are gone, and not needed
        sink.commit(late)
    assert rows_of(tmp_path / "t") == [{"id": 1, "n": 2}]


def test_a_merge_that_was_prepared_is_finished_by_another_process(tmp_path):
    first = upserting(tmp_path / "t", pk_fields=("id",))
    first.write([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    state = first.prepare([{"id": 1, "n": 2}])
    second = Writer(tmp_path / "t", epoch=2)  # set to append meanwhile
    second.commit(state)
    assert rows_of(tmp_path / "t") == [{"id": 1, "n": 2}, {"id": 2, "n": 1}]


def test_columns_that_rows_lack_keep_their_values(tmp_path):
    sink = upserting(tmp_path / "t", pk_fields=("id",))
    sink.write([{"id": 1, "a": 1, "b": "x"}, {"id": 2, "a": 1, "b": "x"}])
    sink.write([{"id": 1, "a": 2}])
    sink.write([{"id": 2, "a": 3}], [{"id": 3, "c": 1, "a": 7}])
    assert rows_of(tmp_path / "t") == [
        {"id": 1, "a": 2, "b": "x", "c": None},
        {"id": 2, "a": 3, "b": "x", "c": None},
        {"id": 3, "a": 7, "b": None, "c": 1},
    ]


def test_names_and_keys_of_any_kind(tmp_path):
    names = ['q"q', "b`b", "a.b", "SelEct", "t", "s", "with space", "é"]
    sink = upserting(tmp_path / "t", pk_fields=('q"q', "a.b"))
    row = dict.fromkeys(names, "x")
    sink.write([row, row | {"a.b": "y"}])
    sink.merge([(Op.DELETE, row), (Op.UPDATE, row | {"a.b": "y", "é": "z"})])
    assert rows_of(tmp_path / "t") == [row | {"a.b": "y", "é": "z"}]


def test_the_key_is_that_of_the_rows_where_none_is_named(tmp_path):
    sink = upserting(tmp_path / "${topic}")
    sink.key = ("id",)
    sink.write([{"id": 1, "n": 1}], dataset="a")
    sink.write([{"id": 1, "n": 2}], dataset="a")
    assert rows_of(tmp_path / "a") == [{"id": 1, "n": 2}]
    sink.key = ()
    keyed = [{"id": 1, "n": 1, "__key": {"id": 1}}]
    sink.write(keyed, dataset="b")
    sink.write(keyed, dataset="b")
    assert rows_of(tmp_path / "b") == [{"id": 1, "n": 1}]
    with pytest.raises(ConfigError) as caught:
        sink.write([{"id": 1}], dataset="c")
    assert caught.value.code == "delta.no_key"
    with pytest.raises(SchemaError) as caught:
        upserting(tmp_path / "d", pk_fields=("no",)).write([{"id": 1}])
    assert caught.value.code == "delta.key_column"


def test_envelopes_are_added_as_rows_and_never_merged(tmp_path):
    row = {"id": 1}
    change = {"before": row, "after": row, "source": {"table": "t"}, "op": "u", "__key": row}
    with pytest.raises(SchemaError) as caught:
        upserting(tmp_path / "t").write([change])
    assert caught.value.code == "delta.envelope"
    assert "ExtractNewRecordState" in caught.value.fix
    unwrapped = {"id": 1, "op": "u", "before": "a text", "__key": row}
    upserting(tmp_path / "u").write([unwrapped])


def test_a_row_without_its_key_is_refused(tmp_path):
    sink = upserting(tmp_path / "t", pk_fields=("id", "k"))
    sink.write([{"id": 1, "k": "a"}, {"id": None, "k": "a"}, {"id": 1, "k": None}])
    assert sink.refused == [(1, "delta.key_missing"), (2, "delta.key_missing")]
    assert rows_of(tmp_path / "t") == [{"id": 1, "k": "a"}]


def test_a_key_for_rows_that_are_only_added_is_refused():
    with pytest.raises(ConfigError) as caught:
        DeltaSinkConfig(path="/t", pk_fields=("id",))
    assert caught.value.code == "config.contradiction"
