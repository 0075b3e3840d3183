"""Memory and CPU by kind of process."""

import os
import subprocess
import sys

from penstock_kit.testing.process_tree import (
    MIB,
    Process,
    list_tree,
    read_process,
    sum_usage,
    usage_of,
)


def process(pid, parent, command, rss=MIB):
    return Process(pid, parent, 0, "S", rss, 0.5, tuple(command.split()))


def test_the_kind_follows_from_who_started_it():
    family = [
        process(1, 0, "python -m penstock.cli"),
        process(2, 1, "/usr/lib/jvm/bin/java -cp x"),
        process(3, 1, "python -m penstock_builtin"),
        process(4, 2, "python -m daemon"),
        process(5, 4, "python -m daemon"),
        process(6, 3, "sh -c true"),
    ]
    used = sum_usage(family, {one.pid: MIB for one in family})
    assert used.processes == {"driver": 1, "jvm": 1, "plugin": 2, "spark": 2}
    assert (used.total_memory, used.total_cpu) == (6 * MIB, 3.0)
    assert "spark 2 MiB" in str(used)


def test_a_process_that_is_gone_uses_nothing():
    assert usage_of(0x7FFFFFF0).total_memory == 0


TOUCHING = "import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1)"
TOUCHING += "; sum(m[::4096]); print('touched', flush=True); input()"


def test_shared_pages_count_once(tmp_path):
    """Two processes that have the same file in memory."""
    file, size = tmp_path / "shared", 200 * MIB
    file.write_bytes(bytes(size))
    command = [sys.executable, "-c", TOUCHING, str(file)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    children = [subprocess.Popen(command, **pipes) for _ in range(2)]
    try:
        for child in children:
            assert child.stdout.readline() == b"touched\n"
        used = sum(usage_of(child.pid).total_memory for child in children)
        resident = sum(read_process(child.pid).rss for child in children)
        assert size <= used < 2 * size <= resident
    finally:
        for child in children:
            child.communicate(b"\n")


def test_the_tree_of_this_process_holds_its_child():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        family = list_tree(os.getpid())
        assert family[0].pid == os.getpid()
        assert child.pid in {p.pid for p in family}
        assert usage_of(os.getpid()).memory["driver"] > MIB
    finally:
        child.communicate(b"\n")
    assert read_process(child.pid) is None
