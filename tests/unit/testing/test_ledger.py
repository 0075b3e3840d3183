"""A ledger is read whole, or not at all."""

import json

import pytest

from penstock_kit.testing.ledger import LedgerError, read_ledger

LINE = {
    "epoch": 2,
    "task": "c/0",
    "txn": 3,
    "slot": 1,
    "source_task": 0,
    "partition": "p",
    "sequences": [[0, 4], [6, 6]],
    "rows": 6,
    "checksum_ok": True,
    "mono_ns": 10,
}


def write(path, *lines, end="\n"):
    path.write_text("\n".join(json.dumps(line) for line in lines) + end, encoding="utf-8")
    return path


def test_a_line_is_an_entry(tmp_path):
    (entry,) = read_ledger(write(tmp_path / "l.jsonl", LINE)).entries
    assert (entry.epoch, entry.task, entry.txn, entry.slot) == (2, "c/0", 3, 1)
    assert entry.sequences == ((0, 4), (6, 6))
    assert entry.line.endswith("l.jsonl:1")


def test_one_range_may_be_first_and_last(tmp_path):
    short = {key: value for key, value in LINE.items() if key != "sequences"}
    ledger = read_ledger(write(tmp_path / "l", short | {"first_seq": 5, "last_seq": 10}))
    assert ledger.entries[0].sequences == ((5, 10),)
    assert ledger.rows == 6


def test_a_line_cut_short_by_a_crash_was_never_committed(tmp_path):
    path = write(tmp_path / "l", LINE)
    path.write_text(path.read_text() + json.dumps(LINE)[:40])
    ledger = read_ledger(path)
    assert len(ledger.entries) == 1
    assert ledger.torn == (json.dumps(LINE)[:40],)


def test_no_file_is_an_empty_ledger(tmp_path):
    assert read_ledger(tmp_path / "none").entries == ()


def test_the_files_of_a_folder_are_merged_by_time(tmp_path):
    write(tmp_path / "a.jsonl", LINE | {"mono_ns": 3})
    write(tmp_path / "b.jsonl", LINE | {"mono_ns": 1}, LINE | {"mono_ns": 9})
    assert [entry.mono_ns for entry in read_ledger(tmp_path).entries] == [1, 3, 9]


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[]",
        "{}",
        json.dumps(LINE | {"rows": 7}),
        json.dumps(LINE | {"sequences": [[4, 0]]}),
        json.dumps(LINE | {"sequences": 5}),
    ],
)
def test_a_whole_line_that_is_no_entry_is_an_error_that_names_it(tmp_path, bad):
    path = tmp_path / "l"
    path.write_text(f"{json.dumps(LINE)}\n{bad}\n")
    with pytest.raises(LedgerError, match="l:2"):
        read_ledger(path)
