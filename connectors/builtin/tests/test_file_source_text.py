"""Lines of text: every byte of a file becomes part of exactly one row, whatever the blocks are."""

import os
import re

import pytest

from penstock_connector import DataError

LINES = [f"line {n} " + "x" * (n % 37) for n in range(200)]


@pytest.fixture
def small(tmp_path):
    (tmp_path / "a.txt").write_text("".join(line + "\n" for line in LINES))
    return "a.txt"


@pytest.mark.parametrize("block", [64, 100, 1000, 1 << 20])
def test_every_line_is_a_row_whatever_the_block(read, small, block):
    reader = read(small, tail=False, block_bytes=block)
    assert [row["line"] for row in reader.drain()] == LINES
    assert reader.source.finished()


def test_a_read_goes_on_from_every_offset_it_gave(read, small):
    whole = read(small, tail=False, block_bytes=300)
    seen, checkpoints = 0, []
    while (batch := whole.step()) is not None:
        seen += batch.rows.num_rows
        checkpoints.append((seen, dict(whole.offsets)))
    assert len(checkpoints) > 5
    for seen, offsets in checkpoints:
        again = read(small, tail=False, offsets=offsets, block_bytes=70)
        assert [row["line"] for row in again.drain()] == LINES[seen:]


def test_rows_stay_what_they_were_when_the_next_block_is_read(read, small):
    """The memory of blocks is used again: a row must never look into it."""
    reader = read(small, tail=False, block_bytes=200)
    batches = []
    while (batch := reader.source.read_batch()) is not None:
        batches.append(batch.rows)
    assert [line for batch in batches for line in batch.column(0).to_pylist()] == LINES


def test_ends_of_lines_are_lf_or_crlf_and_a_lone_cr_stays(read, tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\n\r\n\nth\rree\r\nlast\r")
    assert read("a", tail=False).drain() == [
        {"line": line} for line in ("one", "two", "", "", "th\rree", "last\r")
    ]


def test_a_last_line_without_a_newline_is_a_row_of_a_bounded_read(read, tmp_path):
    (tmp_path / "a").write_text("one\ntwo")
    reader = read("a", tail=False)
    assert len(reader.drain()) == 2
    assert reader.offsets['{"file":"%s"}' % (tmp_path / "a")]["position"] == 7


def test_a_tailed_last_line_waits_for_its_newline(read, tmp_path):
    path = tmp_path / "a"
    path.write_text("one\ntw")
    reader = read("a")
    reader.drain()
    assert reader.lines == ["one"]
    with path.open("a") as file:
        file.write("o\n")
    reader.until(lambda: reader.lines == ["one", "two"])
    assert not reader.source.finished()


def test_an_empty_file_is_read_at_once(read, tmp_path):
    (tmp_path / "a").touch()
    reader = read("a", tail=False)
    assert reader.drain() == []
    assert reader.source.finished()


def test_partitions_end_with_their_last_rows(read, tmp_path):
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "b").write_text("2\n")
    reader = read("*", tail=False)
    reader.drain()
    assert [batch.finished_partition for batch in reader.batches] == [True, True]


def test_broken_utf8_fails_and_names_the_line(read, tmp_path):
    (tmp_path / "a").write_bytes(b"good\n\xff\xfe bad\nmore\n")
    with pytest.raises(DataError, match="a, line 2 is not") as caught:
        read("a", tail=False).drain()
    assert caught.value.code == "file.invalid_utf8"


def test_broken_utf8_may_be_replaced(read, tmp_path):
    (tmp_path / "a").write_bytes("é\n".encode() + b"\xff bad\nmore\n")
    assert read("a", tail=False, invalid_utf8="replace").drain() == [
        {"line": "é"}, {"line": "\ufffd bad"}, {"line": "more"}
    ]  # fmt: skip


def test_broken_utf8_may_go_to_the_dead_letters_as_it_came(read, tmp_path):
    (tmp_path / "a").write_bytes(b"good\n\xff bad\nmore\n\xfe")
    reader = read("a", tail=False, invalid_utf8="dead-letter")
    assert [row["line"] for row in reader.drain()] == ["good", "more"]
    assert [raw for raw, _ in reader.bad] == [b"\xff bad\n", b"\xfe"]
    assert {error.code for _, error in reader.bad} == {"file.invalid_utf8"}


@pytest.mark.parametrize("block", [20, 1 << 20])
@pytest.mark.parametrize(
    ("config", "good", "bad"),
    [
        ({"format": "jsonl"}, b'{"n":1}', b"nonsense"),
        ({"text_regex": r"(?P<n>\d+)"}, b"1", b"nonsense"),
        ({"format": "csv", "types": ("n:int64",)}, b"1,", b"x,"),
    ],
)
def test_every_dead_letter_has_its_line_of_the_file(read, tmp_path, config, good, bad, block):
    lines = [good, b"\xff", b"\xfe", bad, good, b"\xff", bad, good, bad, b"\xff"]
    if config.get("format") == "csv":
        lines = [b"n,m", *(line + b"," if b"," not in line else line for line in lines[1:])]
    (tmp_path / "a").write_bytes(b"\n".join(lines))
    reader = read(
        "a", tail=False, block_bytes=block, invalid_utf8="dead-letter", invalid_rows="dead-letter",
        **config,
    )  # fmt: skip
    reader.drain()
    told = {int(re.search(r", line (\d+)", str(error))[1]): raw for raw, error in reader.bad}
    assert {number: raw.rstrip(b"\n") for number, raw in told.items()} == {
        number: line for number, line in enumerate(lines, 1) if line not in {good, b"n,m"}
    }


def test_a_line_as_long_as_the_limit_is_read(read, tmp_path):
    (tmp_path / "a").write_bytes(b"short\n" + b"x" * 999 + b"\nshort\n")
    reader = read("a", tail=False, block_bytes=64, max_line_bytes=1000)
    assert [len(row["line"]) for row in reader.drain()] == [5, 999, 5]


@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.parametrize("block", [64, 1 << 20])
def test_a_longer_line_is_refused(read, tmp_path, tail, block):
    (tmp_path / "a").write_bytes(b"short\n" + b"x" * 1001 + b"\n")
    reader = read("a", tail=tail, block_bytes=block, max_line_bytes=1000)
    with pytest.raises(DataError) as caught:
        reader.drain()
    assert caught.value.code == "file.line_too_long"
    assert reader.lines == ["short"]


def test_a_line_of_64_mib_is_one_row(read, tmp_path):
    size = (64 << 20) - 1
    with (tmp_path / "a").open("wb") as file:
        file.write(b"first\n" + b"x" * size + b"\nlast\n")
    reader = read("a", tail=False)
    assert [len(line) for line in reader.lines or [r["line"] for r in reader.drain()]] == [
        5, size, 4
    ]  # fmt: skip


def test_a_long_line_that_grows_slowly_is_not_read_again_and_again(read, tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100_000)
    reader = read("a", block_bytes=1000)
    reader.drain()
    taken = []
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda *a: taken.append(real(*a)) or taken[-1])
    for _ in range(10):
        with path.open("ab") as file:
            file.write(b"y")
        reader.source.files.changed(str(tmp_path), "a", is_folder=False)
        reader.drain()
    assert sum(taken) == 0
    with path.open("ab") as file:
        file.write(b"\n")
    reader.until(lambda: len(reader.rows) == 1)


def test_a_batch_has_at_most_the_rows_asked_for_and_the_offset_comes_last(read, small):
    reader = read(small, tail=False, batch_size=30)
    reader.drain()
    assert reader.lines == LINES
    assert [batch.rows.num_rows for batch in reader.batches] == [30] * 6 + [20]
    assert [batch.offset is None for batch in reader.batches] == [True] * 6 + [False]


def test_the_dataset_is_the_topics_unless_it_names_the_file(read, small):
    plain = read(small, tail=False)
    plain.drain()
    named = read(small, tail=False, dataset="logs.${file}")
    named.drain()
    assert (plain.batches[0].dataset, named.batches[0].dataset) == ("", "logs.a")


def test_it_says_what_is_left(read, small):
    reader = read(small, tail=False, block_bytes=500)
    before, _ = reader.source.remaining()
    reader.step()
    after, _ = reader.source.remaining()
    assert before > after > 0
    reader.drain()
    assert reader.source.remaining() == (0, -1)
