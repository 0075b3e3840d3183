"""Files that are appended to, rotated, cut, rewritten, removed, or appear: nothing is lost, and
nothing is read twice.
"""

import os
import time
from contextlib import suppress

import pytest

from penstock_builtin.file_source import FileSource, FileSourceConfig, watch
from penstock_connector import AuthError, ConfigError, OffsetLostError, Partition, partition_id
from penstock_connector.testing import source_monitor, source_task


def append(path, text):
    with path.open("a") as file:
        file.write(text)


@pytest.mark.timed("inotify is faster than looking")
def test_new_rows_are_told_of_by_the_kernel_not_found_by_looking(read, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_builtin.file_source.tailing._LOOK_EVERY", 1000)
    path = tmp_path / "a"
    path.write_text("0\n")
    reader = read("a")
    reader.drain()
    waits = []
    for n in range(1, 20):
        append(path, f"{n}\n")
        began = time.perf_counter()
        reader.source.wait(10)
        waits.append(time.perf_counter() - began)
        reader.until(lambda n=n: len(reader.rows) == n + 1)
    assert sorted(waits)[len(waits) // 2] < 0.2  # the goal is 10 ms; a busy machine gets more


def test_a_quiet_source_sleeps_until_its_next_look(read, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_builtin.file_source.tailing._LOOK_EVERY", 1000)
    # A user's inotify instances are few, and others may hold them all: then it looks often.
    monkeypatch.setattr("penstock_builtin.file_source.tailing._POLL", 1000)
    (tmp_path / "a").write_text("0\n")
    reader = read("a")
    reader.drain()
    began = time.perf_counter()
    reader.source.wait(0.3)
    assert time.perf_counter() - began >= 0.29


@pytest.mark.timed("a wait of 5 s ends at once")
def test_wake_ends_a_wait(read, tmp_path):
    (tmp_path / "a").touch()
    reader = read("a")
    reader.drain()
    reader.source.wake()
    began = time.perf_counter()
    reader.source.wait(5)
    assert time.perf_counter() - began < 1


def test_without_inotify_it_looks_by_itself(read, tmp_path, monkeypatch):
    # the slow look, which is there beside inotify, never comes
    monkeypatch.setattr("penstock_builtin.file_source.tailing._LOOK_EVERY", 1000)
    deaf = watch.Watcher()
    deaf._broken = True
    monkeypatch.setattr("penstock_builtin.file_source.tailing.WATCHER", deaf)
    path = tmp_path / "a"
    path.write_text("0\n")
    reader = read("a")
    reader.drain()
    append(path, "1\n")
    reader.until(lambda: reader.lines == ["0", "1"])


def test_a_change_that_nobody_tells_of_is_found_by_the_slow_look(read, tmp_path):
    path = tmp_path / "a"
    path.write_text("0\n")
    reader = read("a")
    reader.drain()
    watch.WATCHER.forget(reader.source.files)
    append(path, "1\n")
    reader.until(lambda: reader.lines == ["0", "1"])


def test_looks_in_vain_become_rare_and_one_that_finds_something_brings_them_back(read, tmp_path):
    path = tmp_path / "a"
    path.write_text("0\n")
    reader = read("a")
    reader.drain()
    source = reader.source.files
    for every in (2, 4, 8, 16, 16):
        source._next_look = 0
        assert reader.source.read_batch() is None
        assert source._look_every >= every
    watch.WATCHER.forget(source)
    append(path, "1\n")
    source._next_look = 0
    reader.until(lambda: reader.lines == ["0", "1"])
    assert source._look_every == 1
    assert source._next_look <= time.monotonic() + 1


def test_a_file_that_is_not_there_yet_is_waited_for(read, tmp_path):
    reader = read("later")
    assert reader.drain() == []
    (tmp_path / "later").write_text("here\n")
    reader.until(lambda: reader.lines == ["here"])


def test_new_files_of_a_pattern_are_found_while_running(read, tmp_path):
    (tmp_path / "a.log").write_text("a\n")
    reader = read("*.log")
    reader.drain()
    (tmp_path / "b.log").write_text("b\n")
    (tmp_path / "c.txt").write_text("c\n")
    reader.until(lambda: reader.lines == ["a", "b"])
    assert partition_id({"file": str(tmp_path / "b.log")}) in reader.offsets


def test_new_folders_of_a_pattern_are_found_while_running(read, tmp_path):
    reader = read("*/x/*.log")
    reader.drain()
    (tmp_path / "one" / "x").mkdir(parents=True)
    (tmp_path / "one" / "x" / "a.log").write_text("a\n")
    reader.until(lambda: reader.lines == ["a"])


def test_of_several_tasks_none_finds_new_files_by_itself(tmp_path):
    (tmp_path / "a.log").write_text("a\n")
    config = FileSourceConfig(path=(str(tmp_path / "*.log"),))
    (a,) = FileSource.plan(config, 2, [])
    source = FileSource()
    source.init(config)
    source.connect([a])
    (tmp_path / "b.log").write_text("b\n")
    rows = []
    while (batch := source.read_batch()) is not None:
        rows.append(batch.rows.to_pylist()[0]["line"])
    source.close()
    assert rows == ["a"]
    assert [p.key for p in FileSource.plan(config, 2, [])] == [
        {"file": str(tmp_path / "a.log")},
        {"file": str(tmp_path / "b.log")},
    ]


@pytest.mark.parametrize(
    ("path", "tail", "tasks", "watched"),
    [("*", True, 2, True), ("*", True, 1, False), ("*", False, 2, False), ("a", True, 2, False)],
)
def test_only_what_may_grow_and_has_several_tasks_is_watched(tmp_path, path, tail, tasks, watched):
    config = FileSourceConfig(path=(str(tmp_path / path),), tail=tail)
    assert FileSource.monitored(config, tasks) is watched


def test_the_monitor_wants_a_plan_for_new_files_and_for_no_others(tmp_path):
    (tmp_path / "a.log").touch()
    config = {"path": str(tmp_path / "*" / "*.log") + "," + str(tmp_path / "*.log")}
    planned = [Partition({"file": str(tmp_path / "a.log")})]
    with source_monitor(FileSource, config, planned) as task:
        for new in (tmp_path / "b.log", tmp_path / "folder" / "c.log"):
            (tmp_path / "other.txt").touch()
            (tmp_path / "a.log").write_text("more\n")
            with pytest.raises(TimeoutError):
                task.replan(timeout=0.5)
            new.parent.mkdir(exist_ok=True)
            new.touch()
            assert task.replan() == f"1 files appeared, {new} is one of them"
            assert task.replan()  # while it is not followed
            planned.append(Partition({"file": str(new)}))
            task.tell(planned)
            with suppress(TimeoutError):  # what was under way
                while True:
                    task.replan(timeout=3)
        (tmp_path / "b.log").unlink()
        with pytest.raises(TimeoutError):
            task.replan(timeout=3)


def test_the_plan_names_every_file_as_a_partition(tmp_path):
    for name in "ba":
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    bounded = FileSourceConfig(path=(str(tmp_path / "*"),), tail=False)
    keys = [partition.key for partition in FileSource.plan(bounded, 9, [])]
    assert keys == [{"file": str(tmp_path / "a")}, {"file": str(tmp_path / "b")}]


def test_a_rotated_file_is_read_to_its_end_before_the_new_one(read, tmp_path):
    path = tmp_path / "a"
    path.write_text("1\n2\n")
    reader = read("a")
    reader.drain()
    old = path.open("a")
    path.rename(tmp_path / "a.1")
    old.write("3\n")
    old.flush()
    path.write_text("4\n")
    old.write("5\n6")  # a writer that has not noticed yet, cut short
    old.close()
    reader.until(lambda: "4" in reader.lines)
    assert reader.lines == ["1", "2", "3", "5", "6", "4"]


def test_a_file_rotated_while_nobody_reads_is_found_under_its_new_name(read, tmp_path):
    path = tmp_path / "a"
    path.write_text("1\n2\n")
    first = read("a")
    first.drain()
    append(path, "3\n")
    path.rename(tmp_path / "a.1")
    path.write_text("4\n")
    second = read("a", offsets=first.offsets)
    second.until(lambda: second.lines == ["3", "4"])


@pytest.mark.parametrize("running", [True, False])
def test_a_file_rotated_to_a_name_that_is_meant_is_not_read_twice(read, tmp_path, running):
    path = tmp_path / "a.log"
    path.write_text("1\n2\n")
    reader = read("a.log*")
    reader.drain()
    append(path, "3\n")
    path.rename(tmp_path / "a.log.1")
    path.write_text("4\n")
    rows = reader.rows
    if not running:
        reader = read("a.log*", offsets=reader.offsets)
    reader.until(lambda: sorted(row["line"] for row in [*rows, *reader.rows])[-1:] == ["4"])
    reader.until(lambda: "3" in reader.lines)
    seen = reader.lines if running else [row["line"] for row in [*rows, *reader.rows]]
    assert sorted(seen) == ["1", "2", "3", "4"]
    third = read("a.log*", offsets=reader.offsets)
    assert third.drain() == []


def test_the_new_name_of_a_rotated_file_is_checkpointed_before_rows_of_the_new_file(read, tmp_path):
    """Else a crash in between would read the old file again under its new name."""
    path = tmp_path / "a.log"
    path.write_text("1\n")
    reader = read("a.log*")
    reader.drain()
    path.rename(tmp_path / "a.log.1")
    path.write_text("2\n")
    reader.until(lambda: reader.lines == ["1", "2"])
    where = [batch.partition["file"][-1] for batch in reader.batches]
    assert where == ["g", "1", "g", "g"]  # its rows, its new name, the old one is free, rows
    assert reader.batches[1].offset["position"] == 2


def test_a_file_that_became_shorter_is_read_from_its_start(read, tmp_path, caplog):
    path = tmp_path / "a"
    path.write_text("1\n2\n3\n")
    reader = read("a")
    reader.drain()
    path.write_text("4\n")
    reader.until(lambda: reader.lines == ["1", "2", "3", "4"])
    assert "became shorter" in caplog.text


def test_a_file_rewritten_in_place_is_noticed_even_when_it_is_longer(read, tmp_path, caplog):
    path = tmp_path / "a"
    path.write_text("1\n2\n")
    reader = read("a")
    reader.drain()
    path.write_text("5\n6\n7\n")
    reader.until(lambda: reader.lines == ["1", "2", "5", "6", "7"])
    assert "was rewritten" in caplog.text


@pytest.mark.parametrize("text", ["4\n", "5\n6\n7\n8\n9\n"])
def test_a_cut_or_rewritten_file_may_fail_instead(read, tmp_path, text):
    path = tmp_path / "a"
    path.write_text("1\n2\n3\n")
    reader = read("a", truncated="fail")
    reader.drain()
    path.write_text(text)
    with pytest.raises(OffsetLostError) as caught:
        reader.until(lambda: False)
    assert caught.value.code == "file.truncated"
    again = read("a", offsets=reader.offsets, truncated="fail")
    with pytest.raises(OffsetLostError):
        again.drain()


def test_a_file_moved_to_another_disk_goes_on(read, tmp_path):
    """Another inode with the same bytes is the same file."""
    path = tmp_path / "a"
    path.write_text("1\n2\n")
    first = read("a")
    first.drain()
    copy = tmp_path / "copy"
    copy.write_text("1\n2\n3\n")
    copy.rename(path)
    second = read("a", offsets=first.offsets)
    assert [row["line"] for row in second.drain()] == ["3"]


def test_a_removed_file_ends_and_one_made_anew_begins(read, tmp_path):
    path = tmp_path / "a"
    path.write_text("1\n")
    reader = read("a")
    reader.drain()
    path.unlink()
    reader.drain()
    path.write_text("2\n")
    reader.until(lambda: reader.lines == ["1", "2"])


def test_a_missing_file_fails_a_bounded_read(read):
    with pytest.raises(ConfigError) as caught:
        read("none", tail=False).drain()
    assert caught.value.code == "file.missing"


def test_a_file_that_vanished_half_read_is_an_offset_that_is_lost(read, tmp_path):
    path = tmp_path / "a"
    path.write_text("1\n2\n")
    first = read("a", tail=False)
    first.drain()
    path.unlink()
    with pytest.raises(OffsetLostError) as caught:
        read("a", tail=False, offsets=first.offsets).drain()
    assert caught.value.code == "file.vanished"


def test_an_offset_may_be_a_position_that_a_person_set(read, tmp_path):
    (tmp_path / "a").write_text("1\n2\n3\n")
    offsets = {partition_id({"file": str(tmp_path / "a")}): {"position": 2}}
    assert len(read("a", tail=False, offsets=offsets).drain()) == 2


def test_a_position_inside_a_line_gives_no_part_of_a_line(read, tmp_path):
    """Kafka Connect counts characters: beyond ASCII they are fewer than the bytes."""
    (tmp_path / "a").write_text("ü\n2\n", encoding="utf-8")
    offsets = {partition_id({"file": str(tmp_path / "a")}): {"position": 2}}
    with pytest.raises(ConfigError, match="inside a line") as caught:
        read("a", tail=False, offsets=offsets).drain()
    assert caught.value.code == "file.bad_offset"


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_only_regular_files_are_opened(read, tmp_path, kind):
    path = tmp_path / "a"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    reader = read("a")
    with pytest.raises(ConfigError, match=kind) as caught:
        reader.drain()
    assert caught.value.code == "file.not_regular"
    with pytest.raises(ConfigError):
        FileSource.check(reader.source.config)


@pytest.fixture
def unprivileged():
    """Root may read anything: be nobody for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)


def test_an_unreadable_file_is_told(read, tmp_path, request):
    (tmp_path / "a").touch(mode=0)
    reader = read("a")
    request.getfixturevalue("unprivileged")
    with pytest.raises(AuthError) as caught:
        reader.drain()
    assert caught.value.code == "file.permission_denied"


def test_a_link_cannot_lead_out_of_the_roots(read, tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.write_text("secret\n")
    (inside / "a").symlink_to(outside)
    with pytest.raises(ConfigError) as caught:
        read("in/a", allowed_roots=(str(inside),)).drain()
    assert caught.value.code == "file.outside_roots"
    assert read("in/a", tail=False).drain() == [{"line": "secret"}]


def test_a_link_swapped_after_it_was_looked_at_cannot_lead_out(read, tmp_path, monkeypatch):
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a").write_text("harmless\n")
    (tmp_path / "secret").write_text("secret\n")
    reader = read("in/a", tail=False, allowed_roots=(str(inside),))
    real = os.open

    def swap(path, *args, **kwargs):
        if str(path).endswith("in/a"):
            (inside / "a").unlink()
            (inside / "a").symlink_to(tmp_path / "secret")
        return real(path, *args, **kwargs)

    monkeypatch.setattr("penstock_builtin.opening.os.open", swap)
    with pytest.raises(ConfigError) as caught:
        reader.drain()
    assert caught.value.code == "file.outside_roots"


def test_roots_that_look_at_no_opened_file_let_a_link_lead_out(read, tmp_path, monkeypatch):
    """The twin of the two tests above."""
    monkeypatch.setattr("penstock_builtin.opening.Roots.check", lambda *_: None)
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_text("secret\n")
    (tmp_path / "in" / "a").symlink_to(tmp_path / "out")
    rows = read("in/a", tail=False, allowed_roots=(str(tmp_path / "in"),)).drain()
    assert rows == [{"line": "secret"}]


def test_roots_whose_names_begin_alike_are_different(read, tmp_path):
    (tmp_path / "data2").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data2" / "a").write_text("x\n")
    with pytest.raises(ConfigError):
        read("data2/a", allowed_roots=(str(tmp_path / "data"),)).drain()


def test_more_files_than_may_stay_open_are_read_all_the_same(read, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_builtin.file_source.tailing._OPEN_MOST", 5)
    for n in range(40):
        (tmp_path / f"{n:02}.log").write_text(f"{n}\n")
    reader = read("*.log")
    reader.until(lambda: len(reader.rows) == 40)
    reader.drain()
    assert sum(r._file is not None for r in reader.source.files._readers.values()) == 0
    append(tmp_path / "07.log", "again\n")
    reader.until(lambda: reader.lines[-1] == "again")
    assert len(reader.rows) == 41


# ── folders, names, rows of rotated names ────────────────────────────────────────────────────────


def test_a_folder_stands_for_its_files_and_for_those_that_come(read, tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name in ("a.log", "b.txt", ".hidden", "deep/c.log"):
        (tmp_path / "in" / name).write_text(f"{name}\n")
    reader = read("in")
    assert sorted(row["line"] for row in reader.drain()) == ["a.log", "b.txt"]
    (tmp_path / "in" / "new").write_text("new\n")
    reader.until(lambda: "new" in reader.lines)
    deep = read("in", recursive=True, names_regex=r".*\.log", tail=False)
    assert sorted(row["line"] for row in deep.drain()) == ["a.log", "deep/c.log"]


def test_a_folder_with_signs_of_patterns_in_its_name_is_a_folder(read, tmp_path):
    (tmp_path / "a[1]*").mkdir()
    (tmp_path / "a[1]*" / "x").write_text("x\n")
    assert read("a[1]*/", tail=False).source.files is not None
    config = FileSourceConfig(path=(f"{tmp_path}/a[1]*",), tail=False)
    assert [p.key["file"] for p in FileSource.plan(config, 1, [])] == [f"{tmp_path}/a[1]*/x"]


def test_names_are_chosen_by_a_regex_also_those_that_come_later(read, tmp_path):
    (tmp_path / "app-1.log").write_text("1\n")
    (tmp_path / "app-x.log").write_text("x\n")
    reader = read("*", names_regex=r"app-\d+\.log")
    reader.drain()
    (tmp_path / "app-y.log").write_text("y\n")
    (tmp_path / "app-2.log").write_text("2\n")
    reader.until(lambda: len(reader.rows) == 2)
    assert reader.lines == ["1", "2"]


def test_a_regex_that_a_later_name_takes_for_ever_with_is_named(read, tmp_path):
    (tmp_path / "aa").write_text("1\n")
    reader = read("*", names_regex="(a|aa)+")
    reader.drain()
    (tmp_path / ("a" * 60 + "!")).write_text("2\n")
    with pytest.raises(ConfigError) as caught:
        reader.until(lambda: len(reader.rows) == 2)
    assert (caught.value.code, caught.value.config_path) == ("config.slow_pattern", "names.regex")


@pytest.mark.parametrize("name", ["a'b\".log", "a\nb.log", "100%.log", "ä {x}.log", "%2F..log"])
def test_names_may_have_any_characters(read, tmp_path, name):
    (tmp_path / name).write_text("1\n")
    reader = read("*.log")
    assert reader.drain() == [{"line": "1"}]
    append(tmp_path / name, "2\n")
    reader.until(lambda: reader.lines == ["1", "2"])
    assert read("*.log", offsets=reader.offsets).drain() == []
    assert read(name, tail=False).drain() == [{"line": "1"}, {"line": "2"}]


@pytest.mark.parametrize("running", [True, False])
def test_a_row_of_rotated_names_is_read_once(read, tmp_path, running):
    """`a.1` becomes `a.2` and `a` becomes `a.1`: every file goes on under its new name."""
    for number, name in enumerate(["a.log.2", "a.log.1", "a.log"]):
        (tmp_path / name).write_text(f"{number}\n")
    reader = read("a.log*")
    reader.until(lambda: len(reader.rows) == 3)
    seen = list(reader.lines)
    append(tmp_path / "a.log", "late\n")
    for old, new in (("a.log.2", "a.log.3"), ("a.log.1", "a.log.2"), ("a.log", "a.log.1")):
        (tmp_path / old).rename(tmp_path / new)
    (tmp_path / "a.log").write_text("new\n")
    if not running:
        reader = read("a.log*", offsets=reader.offsets)
    reader.until(lambda: {"late", "new"} <= set(reader.lines))
    end = time.monotonic() + 1.5  # a reader leaves a rotated file after half a second of silence
    reader.until(lambda: time.monotonic() > end)
    assert sorted(reader.lines[len(seen) :] if running else reader.lines) == ["late", "new"]
    assert read("a.log*", offsets=reader.offsets).drain() == []


def test_a_copy_that_is_truncated_begins_anew(read, tmp_path):
    path = tmp_path / "a.log"
    path.write_text("1\n2\n")
    reader = read("a.log")
    reader.drain()
    (tmp_path / "a.log.1").write_bytes(path.read_bytes())
    os.truncate(path, 0)
    append(path, "3\n")
    reader.until(lambda: reader.lines == ["1", "2", "3"])


def test_copies_follow_a_file_that_was_rotated_between_them(tmp_path):
    """The old file is read to its end, then the new one: neither is left for ever."""
    path, found, offsets = tmp_path / "app.log", [], {}
    path.write_text("1\n2\n")

    def copy():
        config = {"file": str(path), "tail": "true"}
        with source_task(FileSource, config, offsets=offsets, until_caught_up=True) as task:
            found.extend(int(row["line"]) for row in task.all_rows())
            task.commit()
            offsets.update(task.offsets)

    copy()
    append(path, "3\n")
    path.rename(tmp_path / "app.log.1")
    path.write_text("4\n5\n")
    copy()
    assert found == [1, 2, 3, 4, 5]
    copy()
    assert found == [1, 2, 3, 4, 5], "nothing is new"
