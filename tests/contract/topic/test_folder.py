"""What every driver of a folder promises."""

import io
import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.topic_files.s3_folder import MAX_WHOLE_BYTES, PART_BYTES

RACER = """
import sys
from penstock.topic_files.locations import open_folder
folder, number, count = open_folder(sys.argv[1]).subfolder("race"), sys.argv[2], int(sys.argv[3])
folder.get_sizes(["x"])
print("ready", flush=True)
sys.stdin.readline()
for n in range(count):
    if folder.put_new(str(n), number.encode()):
        print(n)
"""


@pytest.fixture
def folder(place):
    """A folder that is there."""
    place.folder.check_usable()
    made = place.folder.subfolder("t")
    made.create()
    return made


def test_a_name_is_put_once_and_keeps_what_was_put(folder):
    assert folder.put_new("a", b"first")
    assert not folder.put_new("a", b"second")
    assert folder.read("a") == b"first"
    assert [file.name for file in folder.list_files()] == ["a"]


def race(place, fault=""):
    """Let processes put the same names; returns how many had each, and what is there."""
    place.folder.check_usable()
    folder = place.folder.subfolder("race")
    folder.create()
    racers = [place.start(RACER, number, 40, fault=fault) for number in range(5)]
    for one in racers:
        assert one.stdout.readline() == "ready\n"
    for one in racers:
        one.stdin.write("go\n")
        one.stdin.flush()
    won = [one.communicate(timeout=120)[0].split() for one in racers]
    assert [one.returncode for one in racers] == [0] * 5
    winner = {int(name): number for number, names in enumerate(won) for name in names}
    kept = {n: int(folder.read(str(n))) for n in range(40)}
    return Counter(int(name) for names in won for name in names), winner, kept


def test_of_processes_that_put_one_name_exactly_one_does(place):
    counts, winner, kept = race(place)
    assert counts == dict.fromkeys(range(40), 1)
    assert kept == winner


def test_twin_without_the_condition_a_name_is_put_over_and_over(place):
    """The test above is able to fail."""
    counts, _, _ = race(place, "topic.put_condition=break")
    assert max(counts.values()) > 1


def test_what_is_not_there_is_told(folder):
    with pytest.raises(FileNotFoundError):
        folder.read("gone")
    with pytest.raises(FileNotFoundError):
        next(folder.open_files([("gone", 10)]))
    assert folder.get_sizes(["gone"]) == [None]
    folder.delete(["gone"])
    assert list(folder.list_files()) == []
    assert folder.subfolder("gone").list_folders() == []


def test_a_run_is_read_up_to_the_first_name_that_is_not_there(folder):
    for n in [*range(50), 51]:
        folder.put_new(f"{n:03d}", str(n).encode())
    names = (f"{n:03d}" for n in range(1000))
    assert [int(content) for content in folder.read_sequence(names)] == list(range(50))
    assert list(folder.read_sequence(["050", "051"])) == []


def test_files_are_listed_with_their_size_by_the_beginning_of_their_name(folder):
    for name, size in (("a-1", 3), ("a-2", 0), ("b-1", 1), ("_x", 2), (".penstock-1", 9)):
        folder.put_new(name, b"x" * size)
    below = folder.subfolder("a-3")
    below.create()
    below.put_new("inside", b"")
    assert {f.name: f.bytes for f in folder.list_files("a-")} == {"a-1": 3, "a-2": 0}
    assert {f.name for f in folder.list_files()} == {"a-1", "a-2", "b-1", "_x", ".penstock-1"}
    assert {f.name for f in folder.list_files("a-3")} == set()
    assert folder.list_folders() == ["a-3"]
    assert folder.get_sizes(["b-1", "none", "a-1"]) == [1, None, 3]


def test_more_files_than_a_page_of_a_list_are_listed_and_deleted(folder):
    names = [f"n-{n:05d}" for n in range(1100)]
    for name in names:
        folder.put_new(name, b"")
    assert sorted(file.name for file in folder.list_files("n-")) == names
    assert sorted(file.name for file in folder.list_files()) == names
    folder.delete(names[:-1])
    assert [file.name for file in folder.list_files()] == names[-1:]


@pytest.mark.parametrize("name", ["part-g%2F0-1.parquet", "a b", "ü", "~=,+"])
def test_names_are_kept_as_they_are(folder, name):
    assert folder.put_new(name, b"x")
    assert folder.read(name) == b"x"
    assert [file.name for file in folder.list_files()] == [name]
    folder.delete([name])
    assert folder.get_sizes([name]) == [None]


def written(folder, name, content):
    """Write a file as a Parquet writer does; returns the file, not finished."""
    file = folder.create_file(name)
    sink = file.sink if isinstance(file.sink, io.IOBase) else file.sink.open("wb")
    for start in range(0, len(content), 1 << 20):
        sink.write(content[start : start + (1 << 20)])
    if sink is not file:
        sink.close()
    return file


@pytest.mark.parametrize("size", [0, 1000, PART_BYTES + 12345])
def test_a_file_that_is_finished_is_there_and_one_that_was_discarded_is_not(folder, size):
    content = random.Random(1).randbytes(size)
    assert written(folder, "kept", content).finish() == size
    written(folder, "given-up", content).discard()
    folder.sync(["kept"])
    assert folder.read("kept") == content
    assert [file.name for file in folder.list_files()] == ["kept"]


def test_a_large_file_is_read_in_parts_and_small_ones_ahead(folder):
    table = pa.table({"n": range(MAX_WHOLE_BYTES // 4)})
    file = folder.create_file("large")
    pq.write_table(table, file.sink, row_group_size=1 << 16, compression=None, use_dictionary=False)
    size = file.finish()
    assert size > MAX_WHOLE_BYTES
    for n in range(30):
        folder.put_new(str(n), str(n).encode())
    files = [("large", size), *((str(n), 2) for n in range(30))]
    opened = folder.open_files(files)
    with next(opened) as source, pq.ParquetFile(source) as parts:
        assert parts.read_row_group(3).equals(table.slice(3 << 16, 1 << 16))
        assert parts.read().equals(table)
    for n, source in enumerate(opened):
        with source:
            assert source.read() == str(n).encode()
