"""Log lines: log_context, parseable, not to be forged."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest

from penstock.telemetry.logs import LogFormat, configure_logging, log_context
from penstock.telemetry.redaction import STACK_TRACE, register_secret

log = logging.getLogger("penstock.somewhere")


@pytest.fixture
def stream():
    """The stream that is logged to, with the root logger put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:], root.level = handlers, level


def test_a_json_line_has_time_level_logger_message_and_attributes(stream):
    configure_logging(LogFormat.JSON, stream=stream)
    with log_context(connector="orders", task="g-0", epoch=7):
        log.info("opened %d partitions", 3)
    document = json.loads(stream.getvalue())
    assert document.pop("time").endswith("Z")
    assert document == {
        "level": "info",
        "logger": "penstock.somewhere",
        "message": "opened 3 partitions",
        "connector": "orders",
        "task": "g-0",
        "epoch": 7,
    }


def test_concurrent_tasks_keep_their_attributes_apart(stream):
    configure_logging(LogFormat.JSON, stream=stream)

    async def work(name: str) -> None:
        with log_context(connector=name):
            for _ in range(5):
                await asyncio.sleep(0)
                await asyncio.create_task(inner(name))

    async def inner(name: str) -> None:
        log.info(name)

    async def main() -> None:
        await asyncio.gather(*(work(f"c{i}") for i in range(5)))
        log.info("outside")

    asyncio.run(main())
    documents = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(documents) == 26
    assert all(d.get("connector", "outside") == d["message"] for d in documents)


def test_attributes_add_up_and_end_with_their_block(stream):
    configure_logging(LogFormat.JSON, stream=stream)
    with log_context(connector="a"):
        with log_context(task="t"):
            log.info("both")
        log.info("one")
    both, one = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (both["connector"], both["task"]) == ("a", "t")
    assert "task" not in one


@pytest.mark.parametrize("form", list(LogFormat))
def test_a_record_can_forge_neither_a_line_nor_a_colour(stream, form):
    configure_logging(form, stream=stream)
    log.warning("row \x1b[31m\n2026-01-01T00:00:00Z ERROR   forged: \u202e\x00")
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_setting_up_again_replaces_and_does_not_repeat(stream):
    configure_logging(LogFormat.JSON, stream=stream)
    configure_logging(LogFormat.TEXT, level="DEBUG", stream=stream)
    log.debug("once")
    assert stream.getvalue().count("once") == 1


def test_a_traceback_is_shown_below_its_line(stream):
    configure_logging(stream=stream)
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("what")
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith("ERROR   penstock.somewhere: what")
    assert lines[-1] == "    ValueError: why"


@pytest.mark.parametrize("form", list(LogFormat))
def test_a_trace_that_came_as_a_text_is_shown_as_that_of_an_exception(stream, form):
    """That of a plugin: it is no exception of this process. Secrets in it are masked."""
    configure_logging(form, stream=stream)
    register_secret("trace-canary")
    log.error("it failed", extra={STACK_TRACE: "File a.py\n  url = 'trace-canary'"})
    if form is LogFormat.JSON:
        shown = json.loads(stream.getvalue())["exception"].splitlines()
    else:
        shown = [line.removeprefix("    ") for line in stream.getvalue().splitlines()[1:]]
    assert shown == ["File a.py", "  url = '***'"]


def test_errors_that_a_verb_prints_itself_are_not_in_the_stream(stream):
    configure_logging(stream=stream, printed=[log.name])
    log.error("1")
    log.warning("2")
    logging.getLogger("penstock.b").error("3")
    assert [line[-3:] for line in stream.getvalue().splitlines()] == [": 2", ": 3"]
