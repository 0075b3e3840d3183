"""Compressed files: lines of what is inside, with offsets that are places in it."""

import gzip
import json
import os

import pyarrow as pa
import pytest

from penstock_builtin.file_source import FileSourceConfig
from penstock_connector import ConfigError, DataError, OffsetLostError, partition_id


def zstd(data):
    return pa.compress(data, "zstd", asbytes=True)


PACK = {"gz": gzip.compress, "zst": zstd}


def lines(n, begin=0):
    return [f"{number} some text" for number in range(begin, n)]


def text(rows):
    return "".join(f"{row}\n" for row in rows).encode()


@pytest.mark.parametrize("ending", PACK)
def test_lines_are_read_and_gone_on_with_from_every_offset(read, tmp_path, ending):
    (tmp_path / f"a.{ending}").write_bytes(PACK[ending](text(lines(500))))
    whole = read(f"a.{ending}", tail=False, block_bytes=1000)
    checkpoints = []
    while whole.step() is not None:
        checkpoints.append((len(whole.rows), dict(whole.offsets)))
    assert whole.lines == lines(500)
    assert whole.source.finished()
    assert len(checkpoints) > 5
    for seen, offsets in checkpoints:
        again = read(f"a.{ending}", tail=False, block_bytes=1000, offsets=offsets)
        again.drain()
        assert again.lines == lines(500)[seen:]


@pytest.mark.parametrize("ending", PACK)
def test_several_members_are_one_text_and_a_last_line_needs_no_newline(read, tmp_path, ending):
    pack = PACK[ending]
    (tmp_path / f"a.{ending}").write_bytes(pack(b"1\n2") + pack(b"\n3\n") + pack(b"4"))
    reader = read(f"a.{ending}")
    assert reader.drain() == [{"line": n} for n in "1234"]


def test_what_is_in_a_file_of_no_ending_may_be_told(read, tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(b"x\n"))
    (tmp_path / "b.gz").write_bytes(b"plain\n")
    assert read("a", tail=False, compression="gzip").drain() == [{"line": "x"}]
    assert read("b.gz", tail=False, compression="none").drain() == [{"line": "plain"}]


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"no gzip at all\n", "header"), (gzip.compress(text(lines(9999)))[:-20], "runcated")],
)
def test_a_broken_file_is_told(read, tmp_path, data, why):
    (tmp_path / "a.gz").write_bytes(data)
    with pytest.raises(DataError, match=why) as caught:
        read("a.gz", tail=False).drain()
    assert caught.value.code == "file.invalid_compression"
    assert "a.gz" in str(caught.value)


def test_one_that_is_still_being_written_is_waited_for(read, tmp_path, caplog):
    packed = gzip.compress(text(lines(2000)))
    path = tmp_path / "a.gz"
    path.write_bytes(packed[: len(packed) // 2])
    reader = read("a.gz", block_bytes=4000)
    before = len(reader.drain())
    assert 0 < before < 2000
    assert "not whole yet" in caplog.text
    with path.open("ab") as file:
        file.write(packed[len(packed) // 2 :])
    reader.until(lambda: len(reader.rows) == 2000)
    assert reader.lines == lines(2000)


def test_members_that_are_appended_go_on(read, tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"1\n"))
    reader = read("a.gz")
    reader.drain()
    with path.open("ab") as file:
        file.write(gzip.compress(b"2\n"))
    reader.until(lambda: reader.lines == ["1", "2"])


@pytest.mark.parametrize("how", ["restart", "fail"])
def test_a_file_that_was_replaced_begins_anew_or_fails(read, tmp_path, how):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"1\n2\n"))
    reader = read("a.gz", truncated=how)
    reader.drain()
    path.write_bytes(gzip.compress(b"3\n"))
    if how == "restart":
        reader.until(lambda: reader.lines == ["1", "2", "3"])
    else:
        with pytest.raises(OffsetLostError) as caught:
            reader.until(lambda: False)
        assert caught.value.code == "file.truncated"


@pytest.mark.parametrize("running", [True, False])
def test_a_file_that_was_renamed_is_not_read_twice(read, tmp_path, running):
    (tmp_path / "a.1.gz").write_bytes(gzip.compress(b"old\n"))
    reader = read("a.*.gz")
    reader.drain()
    (tmp_path / "a.1.gz").rename(tmp_path / "a.2.gz")
    (tmp_path / "a.1.gz").write_bytes(gzip.compress(b"new\n"))
    if not running:
        reader = read("a.*.gz", offsets=reader.offsets)
    reader.until(lambda: "new" in reader.lines)
    reader.drain()
    assert reader.lines == (["old", "new"] if running else ["new"])
    assert read("a.*.gz", offsets=reader.offsets).drain() == []


def test_a_file_that_was_read_whole_is_not_unpacked_again(read, tmp_path, monkeypatch):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n"))
    first = read("a.gz")
    first.drain()
    opened = []
    real = os.open
    monkeypatch.setattr(
        "os.open", lambda path, *a, **k: (opened.append(path), real(path, *a, **k))[1]
    )
    assert read("a.gz", offsets=first.offsets).drain() == []
    assert not [path for path in opened if str(path).endswith("a.gz")]


def test_a_small_file_that_unpacks_to_a_large_one_is_unpacked_in_pieces(read, tmp_path):
    import tracemalloc

    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x" * (200 << 20), 9))
    reader = read("a.gz", tail=False, max_line_bytes=1 << 20)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    with pytest.raises(DataError) as caught:
        reader.drain()
    assert caught.value.code == "file.line_too_long"
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    assert pa.total_allocated_bytes() - before < 32 << 20
    tracemalloc.stop()


def test_json_and_csv_inside_have_their_headers_and_their_lines_numbers(read, tmp_path):
    rows = [{"id": n, "text": f"a\nb{n}"} for n in range(50)]
    body = "id,text\n" + "".join(f'{r["id"]},"{r["text"]}"\n' for r in rows)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(body.encode()))
    whole = read("a.csv.gz", tail=False, format="csv", block_bytes=100)
    for _ in range(3):
        whole.step()
    half, offsets = len(whole.rows), dict(whole.offsets)
    again = read("a.csv.gz", tail=False, format="csv", block_bytes=100, offsets=offsets)
    assert [*whole.rows[:half], *again.drain()] == rows
    packed = gzip.compress(text([json.dumps({"n": n}) for n in range(30)] + ["no json"]))
    (tmp_path / "b.jsonl.gz").write_bytes(packed)
    with pytest.raises(DataError, match=r"b.jsonl.gz, line 31 is not JSON: 'no json'"):
        read("b.jsonl.gz", tail=False, format="jsonl", block_bytes=100).drain()


def test_a_link_cannot_lead_out_of_the_roots(read, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out.gz").write_bytes(gzip.compress(b"secret\n"))
    (tmp_path / "in" / "a.gz").symlink_to(tmp_path / "out.gz")
    with pytest.raises(ConfigError) as caught:
        read("in/a.gz", allowed_roots=(str(tmp_path / "in"),)).drain()
    assert caught.value.code == "file.outside_roots"


def test_an_offset_may_be_a_position_that_a_person_set(read, tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2\n3\n"))
    offsets = {partition_id({"file": str(tmp_path / "a.gz")}): {"position": 2}}
    assert len(read("a.gz", tail=False, offsets=offsets).drain()) == 2


def test_containers_have_a_compression_of_their_own():
    with pytest.raises(ConfigError) as caught:
        FileSourceConfig(path=("a",), format="avro", compression="gzip")
    assert caught.value.config_path == "compression"
