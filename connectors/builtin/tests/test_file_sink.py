"""Files of rows: what is written, where, and what is refused."""

import csv
import datetime as dt
import json
import threading

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_builtin.file_sink import FileSink, FileSinkConfig, disk, place, spill
from penstock_builtin.file_sink.place import target_path
from penstock_connector import ConfigError, FencedError, Op, RetriableError, SchemaError

ROWS = [
    {"id": 1, "name": 'say "hi"\\\n\tthere', "price": 1.5, "at": dt.date(2020, 1, 2)},
    {"id": 2, "name": None, "price": None, "at": None},
    {"id": 3, "name": "é, ☃\x01", "price": -2.0, "at": dt.date(2020, 1, 3)},
]


def files(folder):
    """Visible files and what is in them."""
    return {
        path.name: path.read_text()
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".")
    }


def staged(tmp_path):
    return [path for path in tmp_path.rglob("*.part") if path.is_file()]


# ── formats ──────────────────────────────────────────────────────────────────────────────────────


def test_lines_are_appended_transaction_by_transaction_in_slot_order(writer, tmp_path):
    sink = writer(file="out.txt")
    sink.write(["1", "2"], ["3"])
    sink.write(["4"])
    sink.write(["5", "6"], ["7"], ["8"])
    assert (tmp_path / "out.txt").read_text() == "1\n2\n3\n4\n5\n6\n7\n8\n"
    assert not staged(tmp_path)


def test_lines_go_to_the_end_of_a_file_that_is_there(writer, tmp_path):
    (tmp_path / "out.txt").write_text("before\n")
    writer(file="out.txt").write(["after"])
    assert (tmp_path / "out.txt").read_text() == "before\nafter\n"


def test_the_text_is_line_or_the_only_column_or_the_one_that_is_named(writer, tmp_path):
    for number, (rows, column) in enumerate(
        [([{"line": "x", "n": 1}], ""), ([{"n": 7, "__op": 1}], ""), ([{"a": 1, "b": "x"}], "b")]
    ):
        sink = writer(file=f"{number}.txt", text_column=column)
        sink.write(rows)
    assert "".join(files(tmp_path).values()) == "x\n7\nx\n"


@pytest.mark.parametrize(
    ("config", "warns"),
    [({}, True), ({"text_column": "line"}, False), ({"format": "jsonl"}, False)],
)
def test_columns_that_a_text_does_not_have_are_told(writer, caplog, config, warns):
    sink = writer(file="out.txt", **config).sink
    sink.apply_schema("orders", pa.schema({"line": pa.string(), "at": pa.int64()}), ())
    assert ("of orders, only the column `line` is written, and not at" in caplog.text) is warns
    caplog.clear()
    sink.apply_schema("orders", pa.schema({"line": pa.string(), "__op": pa.int8()}), ())
    assert not caplog.text


@pytest.mark.parametrize(
    ("rows", "column"), [([{"a": 1, "b": 2}], ""), ([{"a": 1}], "b"), ([{"a": [1]}], "a")]
)
def test_no_telling_which_column_is_the_text(writer, rows, column):
    sink = writer(file="out.txt", text_column=column)
    with pytest.raises(SchemaError) as caught:
        sink.sink.apply_schema("", pa.Table.from_pylist(rows).schema, ())
    assert caught.value.code == "file.text_column"


def test_missing_text_is_an_empty_line_and_slices_are_respected(writer, tmp_path):
    column = pa.array(["no", "a", None, "", "b", "no"]).slice(1, 4)
    writer(file="out.txt").write(pa.record_batch([column], ["line"]))
    assert (tmp_path / "out.txt").read_text() == "a\n\n\nb\n"


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.binary(), pa.int64()])
def test_text_of_other_types(writer, tmp_path, kind):
    writer(file="out.txt").write(
        pa.record_batch([pa.array([1, 2]).cast(pa.string()).cast(kind)], ["x"])
    )
    assert (tmp_path / "out.txt").read_text() == "1\n2\n"


def test_json_lines_say_what_the_rows_said(writer, tmp_path):
    writer(file="out.jsonl", format="jsonl").write(ROWS)
    read = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert read == [row | {"at": row["at"] and row["at"].isoformat()} for row in ROWS]


def test_json_of_every_type(writer, tmp_path):
    moment = dt.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    row = {
        "flag": True, "none": None, "nan": float("nan"), "bytes": b"\x00\xff", "when": moment,
        "list": [1, None], "struct": {"a": {"b": 1.5}}, 'k"ey': "last",
    }  # fmt: skip
    writer(file="out", format="jsonl").write([row])
    assert json.loads((tmp_path / "out").read_text()) == row | {
        "nan": None, "bytes": "AP8=", "when": "2020-01-02T03:04:05.000006Z"
    }  # fmt: skip


def test_csv_has_one_header_and_quotes_what_needs_it(writer, tmp_path):
    sink = writer(file="out.csv", format="csv")
    sink.write(ROWS[:2])
    sink.write(ROWS[2:])
    with (tmp_path / "out.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["id"] for row in read] == ["1", "2", "3"]
    assert read[0]["name"] == ROWS[0]["name"]
    assert read[1]["name"] == ""


def test_other_columns_do_not_go_into_the_same_csv_file(writer, tmp_path):
    sink = writer(file="out.csv", format="csv")
    sink.write([{"a": 1}])
    with pytest.raises(SchemaError) as caught:
        sink.write([{"b": 1}])
    assert caught.value.code == "file.csv_header_differs"
    again = writer(file="out.csv", format="csv", epoch=2)
    with pytest.raises(SchemaError):
        again.write([{"b": 1}])
    folder = writer(path="rolling", format="csv", task="g-1")
    folder.write([{"a": 1}])
    folder.write([{"b": 1}])
    assert sorted(files(tmp_path / "rolling").values()) == ['"a"\n1\n', '"b"\n1\n']


def test_bytes_and_durations_have_the_same_texts_in_csv_as_in_json(writer, tmp_path):
    rows = pa.table(
        {"b": [b"\xff", None], "d": pa.array([-1, None], pa.duration("us"))}
    ).to_batches()[0]
    writer(file="out.csv", format="csv").write(rows)
    writer(file="out.jsonl", format="jsonl").write(rows)
    writer(file="out.txt", text_column="d").write(rows)
    with (tmp_path / "out.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"b": "/w==", "d": "PT-0.000001S"}, {"b": "", "d": ""}
        ]  # fmt: skip
    first = (tmp_path / "out.jsonl").read_text().splitlines()[0]
    assert json.loads(first) == {"b": "/w==", "d": "PT-0.000001S"}
    assert (tmp_path / "out.txt").read_text() == "PT-0.000001S\n\n"


def test_csv_of_nested_columns_is_refused(writer):
    with pytest.raises(SchemaError) as caught:
        writer(file="out", format="csv").write([{"a": {"b": 1}}])
    assert caught.value.code == "file.csv_nested"


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary(3), pa.binary_view(),
     pa.dictionary(pa.int8(), pa.binary())],
)  # fmt: skip
def test_csv_of_bytes_is_base64(writer, tmp_path, kind):
    rows = pa.record_batch([pa.array([b"\xff\x00a", None], kind)], names=["b"])
    writer(file="out.csv", format="csv").write(rows)
    assert (tmp_path / "out.csv").read_text() == '"b"\n"/wBh"\n\n'


def test_csv_of_a_type_that_it_cannot_hold_is_refused(writer):
    kind = pa.month_day_nano_interval()
    rows = pa.record_batch([pa.array([1]), pa.array([(1, 2, 3)], kind)], names=["a", "b"])
    with pytest.raises(SchemaError, match="column 'b' is month_day_nano_interval") as caught:
        writer(file="out", format="csv").write(rows)
    assert caught.value.code == "file.csv_type"


@pytest.mark.parametrize("values", [["x", None, "", "y", None], [None, None], [1, None, 3], [None]])
def test_missing_values_of_a_single_csv_column_come_back(writer, read, values):
    writer(file="out.csv", format="csv").write([{"a": value} for value in values])
    assert read("out.csv", tail=False, format="csv").drain() == [{"a": value} for value in values]


def test_missing_texts_of_csv_come_back_where_an_empty_field_is_null(writer, read):
    rows = [{"a": "x", "b": None}, {"a": None, "b": "\r"}, {"a": "", "b": '"\n'}]
    writer(file="out.csv", format="csv").write(rows)
    assert read("out.csv", tail=False, format="csv", csv_null="").drain() == rows


def test_parquet_files_have_the_rows_and_names_that_say_whose(writer, tmp_path):
    sink = writer(path="out", format="parquet", compression="zstd")
    sink.write(ROWS, ROWS)
    sink.write(ROWS)
    names = sorted(path.name for path in (tmp_path / "out").glob("*.parquet"))
    assert names == [f"part-g-0-000000000{n}.parquet" for n in ("1-0000", "1-0001", "2-0000")]
    assert pq.read_table(tmp_path / "out" / names[0]).to_pylist() == ROWS
    (count,) = duckdb.sql(f"select count(*) from '{tmp_path}/out/*.parquet'").fetchall()
    assert count == (9,)
    assert sink.sink.commit_every == 1.0
    assert writer(file="out.txt", task="g-1").sink.commit_every == 0.0


def test_reserved_columns_are_left_out_unless_they_are_wanted(writer, tmp_path):
    rows = [{"a": 1, "__op": 1, "__ts_us": 3}]
    for kind in ("jsonl", "csv", "parquet"):
        writer(path=kind, format=kind).write(rows)
        writer(path=f"{kind}-all", format=kind, reserved_columns=True).write(rows)
    (plain,), (full,) = files(tmp_path / "jsonl").values(), files(tmp_path / "jsonl-all").values()
    assert (json.loads(plain), json.loads(full)) == ({"a": 1}, rows[0])
    assert pq.read_table(tmp_path / "parquet").column_names == ["a"]
    assert pq.read_table(tmp_path / "parquet-all").column_names == ["a", "__op", "__ts_us"]


@pytest.mark.parametrize("op", [Op.UPDATE, Op.DELETE, Op.UPSERT, Op.PATCH, Op.TRUNCATE])
def test_a_change_is_refused_where_nothing_would_tell_it_from_a_row(writer, tmp_path, op):
    for kind in ("jsonl", "csv", "parquet", "text"):
        sink = writer(path=kind, format=kind, text_column="a" if kind == "text" else "")
        sink.write([{"a": n, "__op": o} for n, o in enumerate((None, 0, 1, int(op), 4))])
        assert sink.refused == [(3, "file.change")]
    (lines,) = files(tmp_path / "jsonl").values()
    assert [json.loads(line)["a"] for line in lines.splitlines()] == [0, 1, 2, 4]


def test_changes_are_rows_of_a_column_that_says_what_they_are(writer, tmp_path):
    rows = [{"a": n, "__op": op} for n, op in enumerate((None, 0, 1, 2, 3, 4, 5, 6, 7, 99, -1))]
    words = [None, None, "create", "update", "delete", "snapshot", "upsert", "patch", "truncate"]
    for kind in ("jsonl", "csv", "parquet"):
        sink = writer(path=kind, format=kind, operation_column="op")
        sink.write(rows)
        assert sink.refused == []
    assert pq.read_table(tmp_path / "parquet").to_pylist() == [
        {"a": n, "op": word} for n, word in enumerate([*words, None, None])
    ]
    sink = writer(path="by", format="jsonl", operation_column="op", partition_by=("op",))
    sink.write(rows)
    assert (tmp_path / "by" / "op=delete").is_dir()
    plain = writer(path="plain", format="jsonl", operation_column="op")
    plain.write([{"a": 1}])
    assert [json.loads(text) for text in files(tmp_path / "plain").values()] == [
        {"a": 1, "op": None}
    ]


def test_an_operation_has_a_column_of_its_own(writer):
    with pytest.raises(SchemaError) as caught:
        writer(path="out", format="jsonl", operation_column="a").write([{"a": 1, "__op": 1}])
    assert caught.value.code == "sink.operation_column"
    with pytest.raises(ConfigError) as refused:
        writer(path="out", format="text", operation_column="op")
    assert refused.value.code == "config.contradiction"


def test_rows_of_reserved_columns_alone_are_refused(writer):
    with pytest.raises(SchemaError) as caught:
        writer(file="out").write([{"__op": 1}])
    assert caught.value.code == "file.no_columns"


# ── where ────────────────────────────────────────────────────────────────────────────────────────


def test_every_topic_has_its_file(writer, tmp_path):
    sink = writer(file="out/${topic}-${task}.txt")
    sink.begin()
    state = sink.prepare(
        sink.stage(["1"], dataset="a"), sink.stage(["2"], dataset="b"),
        sink.stage(["3"], dataset="a", slot=1),
    )  # fmt: skip
    sink.sink.commit(sink.txn, 1, state)
    assert files(tmp_path / "out") == {"a-0.txt": "1\n3\n", "b-0.txt": "2\n"}


@pytest.mark.parametrize("dataset", ["../../x", "..", ".", "a/b", "/etc/x", ""])
def test_a_topic_cannot_climb_out_of_its_folder(dataset):
    assert target_path("/data/${topic}", dataset, "g-0").rpartition("/")[0] == "/data"


def test_a_folder_has_files_of_at_most_the_rows_asked_for(writer, tmp_path):
    sink = writer(path="out", rotate_rows=4)
    sink.write(["1", "2", "3"], ["4", "5", "6", "7", "8", "9"])
    sink.write(["10"])
    sink.write(["11", "12"])
    lines = [text.splitlines() for text in files(tmp_path / "out").values()]
    assert all(len(some) <= 4 for some in lines)
    assert sorted(int(line) for some in lines for line in some) == list(range(1, 13))
    assert len(lines) == 4


def test_a_folder_begins_a_new_file_after_the_bytes_asked_for(writer, tmp_path):
    sink = writer(path="out", rotate_bytes=10)
    for n in range(4):
        sink.write([f"line {n}"])
    assert list(files(tmp_path / "out").values()) == ["line 0\nline 1\n", "line 2\nline 3\n"]


def test_a_folder_begins_a_new_file_after_the_time_asked_for(writer, tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("penstock_builtin.file_sink.local.time.monotonic", lambda: now[0])
    sink = writer(path="out", rotate_interval=60)
    for moment in (100, 150, 161):
        now[0] = moment
        sink.write([str(moment)])
    assert sorted(files(tmp_path / "out").values()) == ["100\n150\n", "161\n"]


def test_a_file_that_was_taken_away_from_a_folder_is_not_made_again(writer, tmp_path):
    sink = writer(path="out")
    sink.write(["1"])
    (taken,) = (tmp_path / "out").glob("part-*")
    taken.rename(tmp_path / "taken")
    sink.write(["2"])
    assert list(files(tmp_path / "out").values()) == ["2\n"]


def test_a_new_life_of_a_task_never_writes_over_files(writer, tmp_path):
    """The host may count transactions from the start again when offsets were set back."""
    for kind in ("text", "parquet"):
        for epoch in (1, 2, 3):
            sink = writer(path=kind, format=kind, epoch=epoch)
            sink.write([str(epoch)])
        assert len(list((tmp_path / kind).glob("part-*"))) == 3


def test_a_link_cannot_lead_out_of_the_roots(writer, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "out")
    roots = (str(tmp_path / "in"),)
    with pytest.raises(ConfigError) as caught:
        writer(path="in/folder", allowed_roots=roots)
    assert caught.value.code == "file.outside_roots"
    (tmp_path / "in" / "a.txt").symlink_to(tmp_path / "out" / "secret")
    (tmp_path / "out" / "secret").write_text("mine\n")
    with pytest.raises(ConfigError):
        writer(file="in/a.txt", allowed_roots=roots).write(["x"])
    assert (tmp_path / "out" / "secret").read_text() == "mine\n"


def test_two_tasks_cannot_append_to_one_file(writer, tmp_path):
    one = writer(file="out.txt", task="g-0")
    one.write(["1"])
    with pytest.raises(ConfigError, match="g-0") as caught:
        writer(file="out.txt", task="g-1")
    assert caught.value.code == "file.in_use"
    one.sink.close()
    writer(file="out.txt", task="g-1").write(["2"])
    assert (tmp_path / "out.txt").read_text() == "1\n2\n"


def test_two_tasks_fill_one_folder(writer, tmp_path):
    for task in ("g-0", "g-1", "h-0"):
        writer(path="out", task=task).write([task])
    assert sorted(files(tmp_path / "out").values()) == ["g-0\n", "g-1\n", "h-0\n"]


# ── fencing, attempts, failures ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", [{"file": "out.txt"}, {"path": "out"}])
def test_an_older_epoch_writes_nothing_any_more(writer, tmp_path, where):
    """Invariant 4: the old owner may still live, on another machine."""
    old = writer(epoch=1, **where)
    old.write(["1"])
    old.begin()
    prepared = old.prepare(old.stage(["2"]))
    new = writer(epoch=2, **where)
    with pytest.raises(FencedError):
        old.sink.commit(old.txn, 1, prepared)
    new.sink.commit(old.txn, 1, prepared)
    with pytest.raises(FencedError):
        old.write(["3"])
    with pytest.raises(FencedError):
        writer(epoch=1, **where).write(["3"])
    written = [p for p in (tmp_path / "out.txt", *(tmp_path / "out").glob("p*")) if p.is_file()]
    assert "".join(path.read_text() for path in written) == "1\n2\n"


def test_only_the_attempts_that_are_named_count(writer, tmp_path):
    sink = writer(file="out.txt")
    sink.begin()
    dead, good = sink.stage(["dead"], attempt=0), sink.stage(["good"], attempt=1)
    dead.discard()
    sink.sink.commit(sink.txn, 1, sink.prepare(good))
    assert (tmp_path / "out.txt").read_text() == "good\n"
    assert not staged(tmp_path)


@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_what_is_thrown_away_leaves_nothing(writer, tmp_path, kind):
    sink = writer(path="out", format=kind)
    sink.begin()
    open_one = sink.sink.stage(1, 0, 0, "", pa.schema([("line", pa.string())]))
    open_one.put(pa.record_batch([["x"]], ["line"]))
    done = sink.stage(["y"], slot=1)
    sink.prepare(done)
    for staging in (open_one, done):
        staging.discard()
    following = writer(path="out", format=kind)  # a run that gives a transaction up ends
    following.sink.sweep(0)
    assert not staged(tmp_path)
    following.write(["z"])
    assert len(list((tmp_path / "out").glob("part-*"))) == 1


def test_a_transaction_may_be_prepared_before_the_last_is_visible(writer, tmp_path):
    for where in ({"file": "out.txt"}, {"path": "out", "rotate_rows": 3}):
        sink = writer(**where)
        states = []
        for n in range(5):
            sink.begin()
            states.append(sink.prepare(sink.stage([f"{n}a", f"{n}b"])))
        for n, state in enumerate(states, start=1):
            sink.sink.commit(n, 1, state)
    wanted = [f"{n}{letter}" for n in range(5) for letter in "ab"]
    assert (tmp_path / "out.txt").read_text().split() == wanted
    assert sorted("".join(files(tmp_path / "out").values()).split()) == wanted


def test_slots_are_staged_from_several_threads(writer, tmp_path):
    sink = writer(file="out-${topic}.txt")
    sink.begin()
    done = {}

    def put(slot):
        done[slot] = sink.stage([f"{slot}"] * 1000, slot=slot, dataset=f"t{slot % 3}")

    threads = [threading.Thread(target=put, args=(slot,)) for slot in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.sink.commit(1, 1, sink.prepare(*(done[slot] for slot in range(12))))
    assert sum(len(text.split()) for text in files(tmp_path).values()) == 12_000


def test_a_sweep_removes_what_earlier_lives_left_in_every_topic(writer, tmp_path):
    for where in ({"file": "out-${topic}.txt"}, {"path": "out/${topic}"}):
        old = writer(**where, epoch=1)
        old.begin()
        for topic in "ab":
            old.stage(["x"], dataset=topic)
        assert len(staged(tmp_path)) == 2
        new = writer(**where, epoch=2)
        new.begin()
        mine = new.stage(["y"], dataset="a")
        new.sink.sweep(0)
        assert [path.name for path in staged(tmp_path)] == [mine.parts[0].name]
        mine.discard()


def test_a_large_state_is_kept_beside_the_staged_files(writer, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_builtin.file_sink.local.INLINE_MOST", 100)
    sink = writer(path="out", format="parquet")
    sink.begin()
    state = sink.prepare(*(sink.stage([f"{n}"], slot=n) for n in range(30)))
    assert len(state) < 400
    assert spill.spilled_in(state)
    again = writer(path="out", format="parquet", epoch=2)
    again.sink.commit(1, 1, state)
    again.sink.commit(1, 1, state)
    again.sink.sweep(1)
    assert len(list((tmp_path / "out").glob("part-*"))) == 30
    assert not staged(tmp_path)


@pytest.mark.parametrize("step", ["write", "copy"])
@pytest.mark.parametrize("kind", ["text", "jsonl", "csv"])
def test_a_full_disk_is_told_and_nothing_half_is_visible(writer, tmp_path, monkeypatch, step, kind):
    sink = writer(file="out", format=kind)
    sink.write(["before"])
    before = (tmp_path / "out").read_bytes()
    real = getattr(disk, step)

    def full(*arguments):
        if step == "copy":
            source, target, size, at = arguments
            real(source, target, size // 2, at)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk, step, full)
        with pytest.raises(RetriableError) as caught:
            sink.write(["x" * 1000])
    assert caught.value.code == "file.disk_full"
    assert (tmp_path / "out").read_bytes() == before
    if step == "copy":  # it was prepared: a new life finishes it
        txn, epoch, state = sink.prepared
        writer(file="out", format=kind, epoch=2).sink.commit(txn, epoch, state)
        assert b"x" * 1000 in (tmp_path / "out").read_bytes()


def test_a_full_disk_is_told_for_parquet(writer, monkeypatch):
    sink = writer(path="out", format="parquet")
    sink.write(["before"])

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(RetriableError) as caught:
        sink.write(["x"])
    assert caught.value.code == "file.disk_full"


def test_another_writer_in_between_is_noticed(writer, tmp_path):
    sink = writer(file="out")
    sink.write(["1"])
    sink.begin()
    state = sink.prepare(sink.stage(["2"]))
    with (tmp_path / "out").open("a") as file:
        file.write("foreign\n")
    with pytest.raises(ConfigError) as caught:
        sink.sink.commit(sink.txn, 1, state)
    assert caught.value.code == "file.changed"
    assert (tmp_path / "out").read_text() == "1\nforeign\n"


def test_a_process_that_hangs_in_a_commit_does_not_hang_others(writer, monkeypatch):
    monkeypatch.setattr(place, "_LOCKED_WITHIN", 0.05)
    sink = writer(file="out")
    sink.write(["1"])
    held = sink.sink.target.places.of("")
    with held._locked(), pytest.raises(RetriableError) as caught:
        sink.write(["2"])
    assert caught.value.code == "file.locked"


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({}, "config.missing"),
        ({"file": "a", "path": "b"}, "config.contradiction"),
        ({"file": "a", "format": "parquet"}, "config.contradiction"),
        ({"file": "a", "csv_delimiter": "ab"}, "config.invalid_value"),
        ({"file": "a", "csv_delimiter": '"'}, "config.invalid_value"),
        ({"file": "a", "csv_delimiter": "\n"}, "config.invalid_value"),
    ],
)
def test_what_cannot_mean_anything_is_refused(keys, code):
    with pytest.raises(ConfigError) as caught:
        FileSinkConfig(**keys)
    assert caught.value.code == code


def test_a_place_that_cannot_be_written_is_told_before_it_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_builtin.file_sink.local.os.access", lambda *_: False)
    with pytest.raises(Exception, match="permission_denied"):
        FileSink.check(FileSinkConfig(file=str(tmp_path / "deep" / "er" / "out")))
