"""What a plugin prints is attributed, escaped and bounded, and never blocks it."""

import asyncio
import logging
import resource
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.plugin.errors import escape_text
from penstock.plugin.process import logs
from penstock.plugin.process.logs import (
    LineBudget,
    LineBuffer,
    PluginLog,
    Redactor,
    forward,
    parse_line,
)


@given(st.lists(st.binary(max_size=60)))
def test_lines_do_not_depend_on_how_the_bytes_were_cut(chunks):
    whole = b"".join(chunks)
    cutter = LineBuffer(max_bytes=1000)
    lines = [line for chunk in chunks for line in cutter.feed(chunk)] + cutter.finish()
    expected = [line.rstrip(b"\r") for line in whole.split(b"\n")]
    assert lines == (expected if whole.split(b"\n")[-1] else expected[:-1])


def test_a_long_line_is_cut_and_the_next_one_is_whole():
    cutter = LineBuffer(max_bytes=10)
    lines = cutter.feed(b"x" * 1_000_000) + cutter.feed(b"y\nnext\n")
    assert lines == [b"x" * 10 + "…".encode(), b"next"]
    assert len(cutter.held) == 0


@pytest.mark.parametrize(
    ("line", "level", "message"),
    [
        ("hello", logging.INFO, "hello"),
        ('{"@level":"warn","@message":"m","@timestamp":"t"}', logging.WARNING, "m"),
        ('{"severityText":"ERROR","body":"b"}', logging.ERROR, "b"),
        ('{"level":"debug","msg":"m","err":"e"}', logging.DEBUG, "m err=e"),
        ('{"level":"wild","message":"m"}', logging.INFO, "m"),
        ('{"level":["x"],"message":"m"}', logging.INFO, "m"),
        ('{"other":1}', logging.INFO, '{"other":1}'),
        ("{not json}", logging.INFO, "{not json}"),
        ("{" * 100_000 + "}", logging.INFO, "{" * 100_000 + "}"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, logging.INFO, None),
    ],
)
def test_levels_and_messages_of_json_lines_are_understood(line, level, message):
    got_level, got = parse_line(line)
    assert got_level == level
    assert message is None or got == message


def logged(caplog, raw):
    """What a log has of a line that a plugin printed."""
    with caplog.at_level(logging.INFO):
        PluginLog("files", "file-source", Redactor()).line(raw)
    return caplog.records[-1].getMessage()


FORGED = b'{"message": "done\\n2026-01-01 ERROR forged\\u001b[2J"}'


def test_a_line_of_a_plugin_forges_no_other_line(caplog):
    assert logged(caplog, FORGED).endswith(r"done\n2026-01-01 ERROR forged\x1b[2J")


def test_a_log_that_escapes_nothing_is_forged(caplog, monkeypatch):
    """The twin of the test above."""
    monkeypatch.setattr(logs, "escape_text", lambda text, *_: text)
    assert logged(caplog, FORGED).endswith("done\n2026-01-01 ERROR forged\x1b[2J")


def test_nothing_unseen_reaches_a_terminal():
    text = "a\x1b[2J\r\nb\u202ec\u2028d\x00e\ud800"
    assert escape_text(text) == r"a\x1b[2J\r\nb\u202ec\u2028d\x00e\ud800"


@given(st.text())
def test_escaped_text_is_one_printable_line(text):
    assert escape_text(text).isprintable()


def test_a_record_names_its_plugin_and_cannot_forge_another(caplog):
    log = PluginLog("files", "file-source", Redactor())
    with caplog.at_level(logging.DEBUG, "penstock.plugin.process.logs"):
        log.line(b'{"level":"error","message":"one\\nERROR root: forged"}')
        log.line(b"\xff\xfe bytes")
    first, second = caplog.records
    assert first.getMessage() == r"files/file-source: one\nERROR root: forged"
    assert (first.levelno, first.plugin, first.connector) == (40, "files", "file-source")
    assert second.getMessage() == r"files/file-source: \xff\xfe bytes"


def test_secrets_are_hidden_and_short_values_are_not():
    redact = Redactor()
    redact.add_secrets(["hunter22", "hunter", "1", ""])
    assert redact("1 hunter22 hunter 1") == "1 *** *** 1"


def test_secrets_that_are_remembered_are_bounded():
    redact = Redactor()
    redact.add_secrets(f"secret-{number:06}" for number in range(2_000))
    assert redact("secret-001999 secret-000000") == "*** secret-000000"


def test_too_many_lines_are_counted_and_told_once(caplog):
    now = [0.0]
    log = PluginLog("p", "c", Redactor(), LineBudget(rate=1, burst=3, clock=lambda: now[0]))
    with caplog.at_level(logging.INFO, "penstock.plugin.process.logs"):
        for number in range(1000):
            log.line(b"line %d" % number)
        assert log.dropped == 997
        now[0] = 2
        log.line(b"again")
    messages = [record.getMessage() for record in caplog.records]
    assert messages[3:] == ["p/c: 997 lines dropped, the plugin prints too much", "p/c: again"]
    assert "line 999" in log.tail


def test_a_pipe_is_read_no_faster_than_its_budget(run):
    async def scenario():
        pipe = asyncio.StreamReader()
        pipe.feed_data(b"x\n" * 50_000)
        pipe.feed_eof()
        taken = []
        started = time.monotonic()
        await forward(pipe, LineBuffer(), taken.append, bytes_per_second=65_536)
        return len(taken), time.monotonic() - started

    lines, seconds = run(scenario())
    assert lines == 50_000
    assert seconds > 0.5


@pytest.mark.timed("calls are answered while the log floods")
def test_a_flood_neither_blocks_the_plugin_nor_grows_the_host(kit, run, caplog):
    """100 MB on stderr end, calls are answered meanwhile, and memory stays."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def scenario():
        slowest = 0.0
        async with kit.running("flood") as process:
            while "flooded" not in process._process.log.tail:
                asked = time.monotonic()
                await process.validate(kit.target())
                slowest = max(slowest, time.monotonic() - asked)
                await asyncio.sleep(0.05)
        return slowest

    with caplog.at_level(logging.INFO, "penstock.plugin.process.logs"):
        slowest = run(scenario())
    assert slowest < 2
    assert len(caplog.records) < 5_000
    assert all(record.getMessage().isprintable() for record in caplog.records)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 32 * 1024
