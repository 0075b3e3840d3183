"""What the README of the plugin host says of keys, codes and bounds is what the code has."""

import re

import pytest

from penstock.plugin import protocol_rules
from penstock.plugin.process import logs
from penstock.worker.process_keys import KEYS
from penstock_values import frame_bounds, schemas
from support.checkout import ROOT

PACKAGE = ROOT / "services" / "penstock" / "plugin"
README = (PACKAGE / "README.md").read_text(encoding="utf-8")
CODE = re.compile(r'"(plugin\.[a-z_]+)"')


def section(title: str, text: str = README) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def keys(text: str = README) -> set[str]:
    return set(
        re.findall(r"^\| `(plugin\.[a-z.]+)` \|", section("Keys of a worker", text), re.MULTILINE)
    )


def codes(text: str = README) -> set[str]:
    """The codes of the first column; `.twice` is plugin.twice."""
    rows = re.findall(r"^\| (`[^|]*) \|", section("Codes", text), re.MULTILINE)
    words = [word for row in rows for word in re.findall(r"`([^`]+)`", row)]
    return {f"plugin{word}" if word.startswith(".") else word for word in words}


def raised() -> set[str]:
    """Every code in the package, except stages of calls and keys of configurations."""
    # a task notices which of its plugins die again and again
    files = [*PACKAGE.rglob("*.py"), PACKAGE.parent / "worker" / "task" / "task.py"]
    texts = [file.read_text(encoding="utf-8") for file in files]
    found = {code for text in texts for code in CODE.findall(text)}
    stages = {"plugin.read", "plugin.write", "plugin.path", "plugin.toml", "plugin.sha256"}
    return found - stages


INTERNAL = {
    "plugin.committed_order",
    "plugin.credential_refused",
    "plugin.failed",
    "plugin.host_closed",
    "plugin.not_open",
    "plugin.ticket",
    "plugin.unimplemented",
    "plugin.aborted",
    "plugin.cancelled",
    "plugin.exhausted",
}
"""Defects of ours, or a plugin's bare status: their messages say all there is."""

STAGES = {f"plugin.{stage}" for stage in ("apply", "check", "describe", "health", "plan")} | {
    "plugin.shutdown",
    "plugin.validate",
    "plugin.monitor",
    "plugin.alter_offsets",
    "plugin.list_datasets",
    "plugin.parse_rows",
    "plugin.signal",
}


def test_every_key_is_in_the_table_and_every_row_is_a_key():
    assert keys() == {key.name for key in KEYS if key.name.startswith("plugin.")}


def test_every_code_that_a_person_can_meet_is_in_the_table():
    assert raised() - STAGES - INTERNAL == codes() - {"plugin.protocol.…"}


@pytest.mark.parametrize("name", ["`plugin.memory.max`", "`.memory_exceeded`"])
def test_a_row_that_is_missing_goes_red(name):
    text = README.replace(name, "`plugin.other`")
    assert keys(text) != keys() or codes(text) != codes()


def test_the_bounds_are_those_of_the_code():
    assert frame_bounds.MAX_ROWS == protocol_rules.MAX_BATCH_ROWS == 1 << 20
    assert frame_bounds.MAX_DECOMPRESSED_BYTES == 64 << 20
    assert (schemas.MAX_COLUMNS, schemas.MAX_NESTING) == (10_000, 32)
    assert (logs.MAX_BURST_LINES, logs.LINES_PER_SECOND) == (1_000, 200)
    for bound in ("2^20", "64 MiB", "65,536", "10,000; 32"):
        assert bound in section("Limits")


TESTS = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")


def missing(text: str) -> list[str]:
    """Return the files of the table of misbehaving plugins that are not there."""
    files = re.findall(r"`((?:\.\./|[a-z]+/)[\w./]+\.py)`", section("Plugins that misbehave", text))
    assert len(files) > 10
    return [file for file in files if not (ROOT / "tests" / file).is_file()]


def test_every_file_in_the_table_of_misbehaving_plugins_is_there():
    assert missing(TESTS) == []
    assert missing(TESTS.replace("unit/plugin/test_seal.py", "unit/plugin/test_sea.py"))


@pytest.mark.parametrize("goal", ["P1", "P2", "P3", "P4", "P5", "D8", "D12", "D13"])
def test_every_goal_of_plugins_has_a_row(goal):
    assert re.search(rf"^\| {goal} \|", section("Plugins that misbehave", TESTS), re.MULTILINE)
