"""The pair that makes loss, repetition and disorder visible does not lie itself."""

import json

import pyarrow as pa
import pytest

from penstock_builtin.verifiable import (
    VerifiableSink,
    VerifiableSinkConfig,
    VerifiableSource,
    VerifiableSourceConfig,
)
from penstock_builtin.verifiable.ledger import Ledger, _backwards
from penstock_builtin.verifiable.rows import checksums, make_rows, ranges_of
from penstock_connector import (
    ConfigError,
    FencedError,
    OffsetLostError,
    Partition,
    SchemaError,
)


def source(offsets=None, **config):
    made = VerifiableSource()
    made.init(VerifiableSourceConfig(**config))
    plan = VerifiableSource.plan(made.config, 1, [])
    made.connect([Partition(p.key, offset=(offsets or {}).get(p.id)) for p in plan])
    return made


def sink(path, task="g-0", epoch=1, **config):
    made = VerifiableSink()
    made.init(VerifiableSinkConfig(ledger=str(path), **config))
    made.connect(task, epoch)
    return made


def prepare(made, txn, *batches, epoch=1, token=b"t"):
    staged = []
    for slot, rows in enumerate(batches):
        staging = made.stage(txn, slot, 0, "", rows.schema)
        staging.put(rows)
        staging.close()
        staged.append(staging)
    return made.prepare(txn, epoch, staged, token)


def write(made, txn, *batches, epoch=1, token=b"t"):
    made.commit(txn, epoch, prepare(made, txn, *batches, epoch=epoch, token=token))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# ── source ───────────────────────────────────────────────────────────────────────────────────────


def test_rows_are_numbered_and_carry_their_checksum():
    made = source(rows=5, partitions=2, batch_rows=3, pipeline="p")
    batches = []
    while (batch := made.read_batch()) is not None:
        batches.append(batch)
    assert made.finished()
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    assert sorted((row["task"], row["seq"]) for row in rows) == [
        (task, seq) for task in (0, 1) for seq in range(5)
    ]
    assert len({row["checksum"] for row in rows}) == 10
    assert {row["pipeline"] for row in rows} == {"p"}


def test_what_was_acknowledged_is_forgotten_for_good(tmp_path):
    config = {"rows": 100, "prune": True, "state_dir": str(tmp_path), "batch_rows": 10}
    made = source(**config)
    batches = [made.read_batch() for _ in range(3)]
    (id_,) = made._sequences
    made.ack({id_: batches[1].offset})
    again = source({id_: batches[1].offset}, **config)
    assert again.read_batch().rows.column("seq")[0].as_py() == 20
    for offsets in ({}, {id_: batches[0].offset}):
        with pytest.raises(OffsetLostError) as caught:
            source(offsets, **config)
        assert caught.value.code == "verifiable.gap"


def test_without_prune_everything_can_be_read_again():
    made = source(rows=10, batch_rows=5)
    first = made.read_batch()
    made.ack({next(iter(made._sequences)): first.offset})
    assert source(rows=10, batch_rows=5).read_batch().rows.equals(first.rows)


def test_prune_needs_a_memory():
    with pytest.raises(ConfigError):
        VerifiableSourceConfig(prune=True)


# ── sink ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_ledger_says_what_came_in_its_order(tmp_path):
    made = sink(tmp_path / "l.jsonl")
    rows = pa.Table.from_batches([make_rows("p", 0, 5, 3), make_rows("p", 1, 0, 2)])
    mixed = rows.combine_chunks().to_batches()[0]
    write(made, 7, mixed, make_rows("p", 0, 2, 1), epoch=3)
    a, b, c = lines(tmp_path / "l.jsonl")
    assert (a["epoch"], a["task"], a["txn"], a["slot"], a["source_task"]) == (3, "g-0", 7, 0, 0)
    assert [x["sequences"] for x in (a, b, c)] == [[[5, 7]], [[0, 1]], [[2, 2]]]
    assert [x["rows"] for x in (a, b, c)] == [3, 2, 1]
    assert all(x["checksum_ok"] for x in (a, b, c))


def test_a_changed_row_is_noticed(tmp_path):
    made = sink(tmp_path / "l.jsonl")
    rows = make_rows("p", 0, 0, 3)
    broken = rows.set_column(1, "task", pa.array([0, 0, 1]))
    write(made, 1, broken)
    assert [line["checksum_ok"] for line in lines(tmp_path / "l.jsonl")] == [True, False]


def test_the_order_of_rows_is_kept_in_ranges():
    assert ranges_of(pa.array([3, 4, 5, 1, 2, 9], pa.int64())) == [[3, 5], [1, 2], [9, 9]]
    assert ranges_of(pa.array([], pa.int64())) == []


@pytest.mark.parametrize("mode", ["two-phase", "sink"])
def test_a_repeated_commit_is_not_written_twice(tmp_path, mode):
    path = tmp_path / "l.jsonl"
    made = sink(path, mode=mode)
    state = prepare(made, 1, make_rows("p", 0, 0, 3))
    made.commit(1, 1, state)
    made.commit(1, 1, state)
    again = sink(path, mode=mode, epoch=2)
    again.commit(1, 1, state)
    write(again, 2, make_rows("p", 0, 3, 3), epoch=2)
    assert [line["sequences"] for line in lines(path)] == [[[0, 2]], [[3, 5]]]


def test_at_least_once_repeats(tmp_path):
    made = sink(tmp_path / "l.jsonl", mode="host")
    state = prepare(made, 1, make_rows("p", 0, 0, 3))
    made.commit(1, 1, state)
    made.commit(1, 1, state)
    assert len(lines(tmp_path / "l.jsonl")) == 2
    assert made.committed() is None


def test_the_token_is_stored_with_the_rows(tmp_path):
    made = sink(tmp_path / "l.jsonl", mode="sink")
    assert made.committed() is None
    write(made, 4, make_rows("p", 0, 0, 3), token=b"four")
    write(made, 5, token=b"five")  # an offset without rows
    assert sink(tmp_path / "l.jsonl", mode="sink", epoch=2).committed() == (5, 1, b"five")


@pytest.mark.parametrize("keep", range(0, 400, 7))
def test_a_transaction_cut_short_is_taken_away_whole(tmp_path, keep):
    path = tmp_path / "l.jsonl"
    made = sink(path)
    write(made, 1, make_rows("p", 0, 0, 3))
    size = path.stat().st_size
    state = prepare(made, 2, make_rows("p", 0, 3, 3), make_rows("p", 1, 0, 3))
    made.commit(2, 1, state)
    data = path.read_bytes()
    path.write_bytes(data[: min(size + keep, len(data) - 1)])
    again = sink(path, epoch=2)
    assert path.stat().st_size == size
    again.commit(2, 1, state)
    assert [line["txn"] for line in lines(path)] == [1, 2, 2]


def test_an_older_epoch_is_refused(tmp_path):
    path = tmp_path / "ledger"
    old = sink(path)
    state = prepare(old, 1, make_rows("p", 0, 0, 3))
    sink(path, epoch=2)
    with pytest.raises(FencedError):
        old.commit(1, 1, state)
    with pytest.raises(FencedError):
        sink(path)
    assert not list(path.glob("*.jsonl"))


def test_tasks_share_a_file_or_have_one_each_in_a_folder(tmp_path):
    for path in (tmp_path / "l.jsonl", tmp_path / "folder"):
        for task in ("g-0", "g-1"):
            made = sink(path, task=task)
            write(made, 1, make_rows("p", 0, 0, 1))
            write(made, 2, make_rows("p", 0, 1, 1))
    assert len(lines(tmp_path / "l.jsonl")) == 4
    assert len(list((tmp_path / "folder").glob("*.jsonl"))) == 2
    assert sink(tmp_path / "l.jsonl", task="g-0", epoch=2).committed()[0] == 2


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_text("precious\n")
    with pytest.raises(ConfigError) as caught:
        sink(path)
    assert caught.value.code == "verifiable.not_a_ledger"
    assert path.read_text() == "precious\n"


def test_other_rows_are_refused(tmp_path):
    with pytest.raises(SchemaError):
        sink(tmp_path / "l").apply_schema("", pa.schema([("line", pa.string())]), ())


def test_lines_are_found_backwards_whatever_the_block(tmp_path):
    path = tmp_path / "l"
    text = [f"{n} " + "x" * (n * 7 % 50) + "\n" for n in range(40)]
    path.write_text("".join(text) + "torn")
    with path.open("rb") as file:
        for block in (1, 3, 64, 4096):
            found = list(_backwards(file.fileno(), path.stat().st_size, block))
            assert [line.decode() for _, line in found] == ["torn", *reversed(text)]
            assert found[-1][0] == 0


def test_checksums_depend_on_pipeline_task_and_number():
    seq = pa.array([1, 2], pa.int64())
    seen = {c for p in "ab" for t in (0, 1) for c in checksums(p, t, seq).to_pylist()}
    assert len(seen) == 8


def test_a_ledger_has_one_writer_at_a_time(tmp_path):
    ledger = Ledger(str(tmp_path / "l.jsonl"), "g-0", 1)
    ledger.claim()
    with ledger._locked(), (tmp_path / ".l.jsonl.lock").open("w") as other:
        import fcntl

        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
