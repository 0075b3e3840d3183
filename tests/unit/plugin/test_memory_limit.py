"""Without a limit of its own, a plugin may have half of what its worker may."""

import os

import pytest

from penstock.plugin.memory_limit import MIN_LIMIT_BYTES, default_memory_limit

GIB = 1 << 30
PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def write(folder, name, text):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_machine_without_limits_gives_half_of_its_memory(tmp_path):
    assert default_memory_limit(tmp_path) == max(PHYSICAL // 2, MIN_LIMIT_BYTES)


@pytest.mark.parametrize(
    ("cgroup", "file", "text"),
    [
        ("0::/", "sys/fs/cgroup/memory.max", f"{3 * GIB}\n"),
        ("0::/a/b", "sys/fs/cgroup/a/b/memory.max", f"{3 * GIB}\n"),
        ("0::/a/b", "sys/fs/cgroup/a/memory.max", f"{3 * GIB}\n"),
        ("4:memory:/a", "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{3 * GIB}\n"),
    ],
)
def test_a_container_gives_half_of_its_limit(tmp_path, cgroup, file, text):
    write(tmp_path, "proc/self/cgroup", f"{cgroup}\n")
    write(tmp_path, file, text)
    assert default_memory_limit(tmp_path) == 3 * GIB // 2


def test_the_smallest_limit_of_a_group_and_those_above_counts(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.max", f"{3 * GIB}\n")
    write(tmp_path, "sys/fs/cgroup/a/b/memory.max", "max\n")
    assert default_memory_limit(tmp_path) == 3 * GIB // 2


def test_a_small_container_leaves_a_plugin_room_to_start(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", f"{GIB}\n")
    assert default_memory_limit(tmp_path) == MIN_LIMIT_BYTES
