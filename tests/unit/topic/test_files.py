"""Files of topics, as executors write and read them."""

import decimal
import errno
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import RetriableError
from penstock.topic.embedded.row_ranges import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    locate_rows,
    next_batch,
)
from penstock.topic.embedded.table_state import TopicFile
from penstock.topic_files import file_writer
from penstock.topic_files.file_reader import read_rows
from penstock.topic_files.file_writer import (
    MAX_GROUP_BYTES,
    MAX_GROUP_ROWS,
    assign_partitions,
    partition_of_task,
    write_files,
    write_files_of_topics,
)
from penstock.topic_files.layout import (
    INDEX,
    StagedName,
    new_compacted_name,
    new_staged_name,
    parse_staged_name,
    task_in_name,
)
from unit.topic.producer_consumer import SCHEMA, rows


def opened(path):
    return pa.memory_map(str(path))


def ticket(root, **more):
    place = {"root": str(root), "topic": "t", "task": "g-0", "epoch": 1, "txn_id": 1, "slot": 0}
    return {**place, "partitions": 1, "key_columns": [], **more}


# ── partitions ───────────────────────────────────────────────────────────────────────────────────

GOLDEN = [
    (pa.array(["", "a", "b", "Müller", None]), [237, 479, 899, 762, 345]),
    (pa.array([0, 1, -1, 2**40, None], pa.int64()), [926, 177, 862, 568, 345]),
    (pa.array([b"", b"\0", b"\xff"]), [237, 345, 226]),
    (pa.array(["x" * 256, "x" * 257, "x" * 100_000]), [156, 419, 507]),
    (pa.array([1.5, -0.25]), [62, 119]),
    (pa.array([decimal.Decimal("1.20")]), [652]),
    (pa.array([{"a": 1, "b": [1, 2]}, None]), [516, 345]),
    (pa.array([True, False]), [999, 637]),
]


@pytest.mark.parametrize("case", range(len(GOLDEN)))
def test_the_hash_never_changes(case):
    """A key that moves to another partition loses its order: these figures are for ever."""
    keys, expected = GOLDEN[case]
    assert assign_partitions(pa.record_batch({"k": keys}), ["k"], 1009).tolist() == expected


def fnv(values):
    """The hash as the documentation has it, one byte after the other."""
    hashed = 0xCBF29CE484222325
    for value in values:
        for byte in [*value, 0]:
            hashed = ((hashed ^ byte) * 0x100000001B3) % 2**64
    return hashed ^ (hashed >> 32)


@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=5)), min_size=1, max_size=50))
def test_the_hash_is_what_the_documentation_says(keys):
    batch = pa.record_batch(
        {"a": pa.array([a for a, _ in keys]), "b": pa.array([b for _, b in keys])}
    )
    expected = [fnv(key) % 13 for key in keys]
    assert assign_partitions(batch, ["a", "b"], 13).tolist() == expected
    assert assign_partitions(batch.slice(1), ["a", "b"], 13).tolist() == expected[1:]


@pytest.mark.parametrize(
    "type_",
    [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.binary()],
)
def test_the_same_key_of_another_type_is_in_the_same_partition(type_):
    keys = pa.array(["a", "bc", "longer than the others", None])
    batch, other = (pa.record_batch({"k": k}) for k in (keys, keys.cast(type_)))
    assert (
        assign_partitions(batch, ["k"], 97).tolist() == assign_partitions(other, ["k"], 97).tolist()
    )


def test_keys_spread_evenly():
    batch = pa.record_batch({"k": pa.array(np.arange(80_000))})
    counts = np.bincount(assign_partitions(batch, ["k"], 8))
    assert counts.min() > 9_000
    assert counts.max() < 11_000


@pytest.mark.timed("the work must not be quadratic")
def test_one_huge_key_is_no_slower_than_others():
    keys = pa.array([*(["x" * 5_000_000]), *(["y"] * 60_000)])
    before = time.process_time()
    assign_partitions(pa.record_batch({"k": keys}), ["k"], 8)
    assert time.process_time() - before < 2


def test_tasks_without_a_key_take_turns_and_stay():
    assert [partition_of_task(f"g-{n}", 3) for n in (0, 1, 2, 3)] == [0, 1, 2, 0]
    assert partition_of_task("odd", 3) == 0


def test_rows_of_one_key_are_in_one_partition_in_their_order(tmp_path):
    batch = pa.RecordBatch.from_pydict(
        {"id": [n % 17 for n in range(3000)], "name": [f"{n}" for n in range(3000)]}, schema=SCHEMA
    )
    place = ticket(tmp_path, partitions=5, key_columns=["id"])
    files = write_files([batch.slice(0, 1000), batch.slice(1000)], place, 1)["files"]
    seen: dict[int, int] = {}
    for file in files:
        last: dict[int, int] = {}
        for row in pq.read_table(tmp_path / file["path"]).to_pylist():
            assert seen.setdefault(row["id"], file["partition"]) == file["partition"]
            assert last.get(row["id"], -1) < int(row["name"])
            last[row["id"]] = int(row["name"])
    assert sum(file["rows"] for file in files) == 3000


def test_the_reserved_key_column_is_the_key_when_no_other_is_named(tmp_path):
    batch = pa.record_batch({"__key": pa.array([{"k": n} for n in range(50)])})
    assert len(write_files([batch], ticket(tmp_path, partitions=4), 1)["files"]) == 4


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def test_rows_keep_their_order_and_get_their_numbers(tmp_path):
    batches = [rows(n, 7) for n in range(0, 700, 7)]
    (file,) = write_files(batches, ticket(tmp_path), 1)["files"]
    table = pq.read_table(tmp_path / file["path"])
    assert table["id"].to_pylist() == table[INDEX].to_pylist() == list(range(700))
    assert file["bytes"] == (tmp_path / file["path"]).stat().st_size


def test_small_batches_do_not_become_small_row_groups(tmp_path):
    (file,) = write_files([rows(n, 1) for n in range(500)], ticket(tmp_path), 1)["files"]
    assert pq.ParquetFile(tmp_path / file["path"]).num_row_groups == 1


def test_wide_rows_do_not_become_huge_row_groups(tmp_path):
    batch = pa.record_batch({"c": pa.array(["x" * 100_000] * 500)})
    (file,) = write_files([batch], ticket(tmp_path), 1)["files"]
    metadata = pq.ParquetFile(tmp_path / file["path"]).metadata
    sizes = [metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups)]
    assert max(sizes) < 1.2 * MAX_GROUP_BYTES


@pytest.mark.parametrize("topics", [1, 4])
def test_many_partitions_and_topics_do_not_collect_more_than_one_does(
    tmp_path, monkeypatch, topics
):
    monkeypatch.setattr(file_writer, "MAX_BUFFERED_BYTES", 1000)
    held = []
    bound = file_writer._bound_buffers

    def watched(slots):
        bound(slots)
        held.append(sum(file.buffered_bytes for slot in slots for file in slot.files.values()))

    monkeypatch.setattr(file_writer, "_bound_buffers", watched)
    places = [
        ticket(tmp_path, partitions=16, key_columns=["id"]) | {"topic": f"t{n}"}
        for n in range(topics)
    ]
    parts = [(places[n % topics], rows(n * 50, 50)) for n in range(20)]
    files = write_files_of_topics(parts, 1)["files"]
    assert max(held) <= 1000
    assert sum(file["rows"] for file in files) == 1000
    assert len({file["topic"] for file in files}) == topics


def test_no_rows_make_no_file(tmp_path):
    assert write_files([rows(0, 0)], ticket(tmp_path), 1) == {"files": []}
    assert list(tmp_path.iterdir()) == []


def test_an_attempt_that_fails_leaves_nothing(tmp_path):
    def broken():
        yield rows(0, 5)
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        write_files(broken(), ticket(tmp_path), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_and_may_be_tried_again(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("penstock.topic_files.local_folder.sync_file", full)
    with pytest.raises(RetriableError) as caught:
        write_files([rows(0, 5)], ticket(tmp_path), 1)
    assert caught.value.code == "topic.disk_full"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(RetriableError, match="write_failed"):
        write_files([rows(0, 5)], ticket(tmp_path / "gone"), 1)


def test_everything_is_synced_before_it_is_reported(tmp_path, monkeypatch):
    """Prepared means durable (invariant 1): the files, and the folder with their names."""
    synced = []
    fsync = os.fsync

    def watched(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    place = ticket(tmp_path, partitions=2, key_columns=["id"])
    files = write_files([rows(0, 50)], place, 1)["files"]
    assert synced == [*(tmp_path / file["path"] for file in files), tmp_path]


@given(
    st.text(min_size=1, max_size=30), st.tuples(*[st.integers(0, 2**60)] * 4, st.integers(0, 99))
)
def test_names_say_who_wrote_a_file(task, numbers):
    name = StagedName(task_in_name(task), *numbers)
    file = new_staged_name(name)
    assert "/" not in file
    assert parse_staged_name(file) == name
    assert new_staged_name(name) != file


@pytest.mark.parametrize(
    "file",
    ["x.parquet", "part-1.parquet", "part-a-b-c-d-e-f-g.parquet", "compact-0-0-c351abf4.parquet"],
)
def test_other_names_say_nothing(file):
    assert len(new_compacted_name(0, 0)) == len("compact-0-0-c351abf4.parquet")
    assert parse_staged_name(file) is None


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


@given(first=st.integers(0, 999), count=st.integers(1, 1000))
def test_any_range_of_a_file_is_read(tmp_path_factory, first, count):
    count = min(count, 1000 - first)
    root = tmp_path_factory.getbasetemp() / "ranges"
    if not root.exists():
        root.mkdir()
        with pq.ParquetWriter(root / "f.parquet", SCHEMA) as writer:
            for start in (0, 300, 600, 800):
                end = {0: 300, 300: 600, 600: 800, 800: 1000}[start]
                writer.write_batch(rows(start, end - start))
    got = [
        b.column("id").to_pylist()
        for b in read_rows(opened(root / "f.parquet"), SCHEMA, first, count)
    ]
    assert [id_ for part in got for id_ in part] == list(range(first, first + count))


def test_rows_are_counted_also_where_a_file_has_none_of_the_columns(tmp_path):
    (file,) = write_files([rows(0, 9)], ticket(tmp_path), 1)["files"]
    other = pa.schema([("new", pa.int8())])
    (batch,) = read_rows(opened(tmp_path / file["path"]), other, 2, 5)
    assert batch.to_pydict() == {"new": [None] * 5}


FILES = st.lists(
    st.tuples(
        st.integers(1, 3 * MAX_BATCH_ROWS) | st.integers(1, 50), st.integers(1, 3 * MAX_BATCH_BYTES)
    ),
    min_size=1,
    max_size=80,
)


@given(FILES, st.integers(0, 100))
def test_slices_cover_every_row_once_within_their_limits(fields, start):
    files, base = [], 0
    for rows_, size in fields:
        files.append(TopicFile(base, rows_, f"f{base}", size))
        base += rows_
    offset = start = min(start, base)
    while (found := next_batch(files, offset)) is not None:
        assert found.first == offset
        assert found.rows >= 1
        assert found.rows <= MAX_BATCH_ROWS
        # a single row may be larger than a slice; it is announced all the same
        assert found.bytes <= MAX_BATCH_BYTES + max(size // rows_ + 1 for rows_, size in fields)
        from_offset = [file for file in files if file.end > offset]
        places = locate_rows(from_offset, offset, found.rows)
        assert places is not None
        assert sum(place.rows for place in places) == found.rows
        assert len(places) == found.files
        offset = found.end
    assert offset == base


def test_a_slice_ends_at_a_hole():
    files = [TopicFile(0, 10, "a"), TopicFile(20, 10, "b")]
    assert next_batch(files, 5).end == 10
    assert next_batch(files, 15) is None
    assert locate_rows(files, 5, 10) is None


def test_large_files_are_cut_where_their_row_groups_end():
    file = TopicFile(0, 10 * MAX_GROUP_ROWS, "f", 10)
    assert next_batch([file], 7).end == MAX_GROUP_ROWS
    assert next_batch([file], MAX_GROUP_ROWS).end == 2 * MAX_GROUP_ROWS


def test_speed_of_writing_and_reading(tmp_path):
    """Printed, not asserted: the machine may be busy."""
    count = 500_000
    text = [f"{n:010d} {'abcdefghij' * 8}" for n in range(count)]
    table = pa.table({"id": np.arange(count), "line": text})
    batches = table.to_batches(max_chunksize=20_000)
    for partitions, keys in ((1, []), (4, ["id"])):
        began = time.process_time()
        files = write_files(
            batches, ticket(tmp_path, partitions=partitions, key_columns=keys), partitions
        )["files"]
        wrote = time.process_time()
        read = sum(
            batch.num_rows
            for file in files
            for batch in read_rows(opened(tmp_path / file["path"]), table.schema, 0, file["rows"])
        )
        ended = time.process_time()
        assert read == count
        print(
            f"\n{partitions} partitions, rows/s of CPU: write {count / (wrote - began) / 1e6:.1f}M"
            f", read {count / (ended - wrote) / 1e6:.1f}M"
        )
