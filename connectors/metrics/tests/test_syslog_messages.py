"""Messages of syslog as rows: golden ones of both RFCs, and what is said of broken ones."""

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from penstock_connector import RawRow
from penstock_metrics.listener import Received
from penstock_metrics.syslog_source.framing import CUT, NO_COUNT, SyslogFraming
from penstock_metrics.syslog_source.messages import (
    SyslogRules,
    parse_message,
    parse_messages,
    parse_raw_row,
)

RULES = SyslogRules(1000, "utf-8", ZoneInfo("UTC"))
CAME = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)


def parsed(data, rules=RULES, came=CAME):
    """The columns that have a value."""
    row = parse_message(data, rules, came)
    return {name: value for name, value in row.items() if value is not None}


def at(*parts):
    return datetime(*parts, tzinfo=UTC)


MODERN = {"facility": 20, "severity": 5, "format": "rfc5424"}
FIRST = (
    b"<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - "
    b"\xef\xbb\xbf'su root' failed for lonvick on /dev/pts/8"
)
STRUCTURED = (
    b'<165>1 2003-10-11T22:14:15.003Z m evntslog - ID47 [exampleSDID@32473 iut="3" '
    b'eventSource="Application" eventID="1011"][examplePriority@32473 class="high"]'
)
OLD = {"facility": 4, "severity": 2, "format": "rfc3164"}


@pytest.mark.parametrize(
    ("data", "row"),
    [
        (
            FIRST,
            {
                "facility": 4, "severity": 2, "format": "rfc5424",
                "timestamp": at(2003, 10, 11, 22, 14, 15, 3000), "host": "mymachine.example.com",
                "app": "su", "msgid": "ID47",
                "message": "'su root' failed for lonvick on /dev/pts/8",
            },
        ),
        (
            b"<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time.",
            {
                **MODERN, "timestamp": at(2003, 8, 24, 12, 14, 15, 3), "host": "192.0.2.1",
                "app": "myproc", "procid": "8710", "message": "%% It's time.",
            },
        ),
        (
            STRUCTURED,
            {
                **MODERN, "timestamp": at(2003, 10, 11, 22, 14, 15, 3000), "host": "m",
                "app": "evntslog", "msgid": "ID47",
                "structured_data": {
                    "exampleSDID@32473": {
                        "iut": "3", "eventSource": "Application", "eventID": "1011",
                    },
                    "examplePriority@32473": {"class": "high"},
                },
            },
        ),
        (b"<165>1 - - - - - -", MODERN),
        (b"<165>1 - - - - - - ", {**MODERN, "message": ""}),
        (
            b'<165>1 - - - - - [a][b x="\\"q\\" \\] \\\\ \\n" x="\xc3\xa4" x="3"] [no data]',
            {
                **MODERN, "message": "[no data]",
                "structured_data": {"a": {}, "b": {"x": ['"q" ] \\ \\n', "ä", "3"]}},
            },
        ),
        (
            b"<165>1 2026-02-28T23:59:59.123456789+14:00 - - - - - nanoseconds",
            {
                **MODERN, "timestamp": at(2026, 2, 28, 9, 59, 59, 123456),
                "message": "nanoseconds",
            },
        ),
        (
            b"<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
            {
                **OLD, "timestamp": at(2025, 10, 11, 22, 14, 15), "host": "mymachine", "app": "su",
                "message": "'su root' failed",
            },
        ),
        (
            b"<34>Jan  1 00:00:07 fe80::1 app-x/y[12]:no space\n",
            {
                **OLD, "timestamp": at(2026, 1, 1, 0, 0, 7), "host": "fe80::1", "app": "app-x/y",
                "procid": "12", "message": "no space",
            },
        ),
        (
            b"<34>Dec 31 23:59:59 root[7]: a local sender has no host",
            {
                **OLD, "timestamp": at(2025, 12, 31, 23, 59, 59), "app": "root", "procid": "7",
                "message": "a local sender has no host",
            },
        ),
        (
            b"<34>2026-01-01T01:00:00.5+01:00 m app: with the time of RFC 5424",
            {
                **OLD, "timestamp": at(2026, 1, 1, 0, 0, 0, 500000), "host": "m", "app": "app",
                "message": "with the time of RFC 5424",
            },
        ),
        (
            b"<34>*Mar 10 2024 18:46:11.123: %SYS-5-CONFIG_I: Configured",
            {
                **OLD, "timestamp": at(2024, 3, 10, 18, 46, 11, 123000), "app": "%SYS-5-CONFIG_I",
                "message": "Configured",
            },
        ),
        (b"<34>only words", {**OLD, "message": "only words"}),
        (b"<34>su: a tag", {**OLD, "app": "su", "message": "a tag"}),
        (b"<34>", {**OLD, "message": ""}),
        (
            b"<34>Oct 11 22:14:15 - no tag here",
            {**OLD, "timestamp": at(2025, 10, 11, 22, 14, 15), "message": "no tag here"},
        ),
        (b"<34>two\nlines\0", {**OLD, "message": "two\nlines"}),
    ],
)  # fmt: skip
def test_a_message_becomes_columns(data, row):
    found = parsed(data.rstrip(b"\n\0"))
    if "structured_data" in found:
        found["structured_data"] = json.loads(found["structured_data"])
    assert found == row


@pytest.mark.parametrize(
    ("came", "said", "year"),
    [
        (at(2026, 1, 1, 0, 5), b"Dec 31 23:59:00", 2025),
        (at(2025, 12, 31, 23, 59), b"Jan  1 00:01:00", 2026),
        (at(2026, 6, 1), b"Jun  1 00:00:00", 2026),
        (at(2028, 3, 1), b"Feb 29 12:00:00", 2028),
        (at(2025, 3, 1), b"Feb 29 12:00:00", 2024),
    ],
)
def test_a_time_without_a_year_is_the_nearest_one(came, said, year):
    assert parsed(b"<34>" + said + b" m a: b", came=came)["timestamp"].year == year


def test_a_time_without_a_zone_is_in_the_configured_one():
    rules = SyslogRules(1000, "utf-8", ZoneInfo("Europe/Berlin"))
    summer = parsed(b"<34>Jul 11 22:14:15 m a: b", rules, at(2026, 7, 11))
    assert summer["timestamp"] == at(2026, 7, 11, 20, 14, 15)
    # it is next year there already
    rolled = parsed(b"<34>Jan  1 00:30:00 m a: b", rules, at(2025, 12, 31, 23, 30))
    assert rolled["timestamp"] == at(2025, 12, 31, 23, 30)


def test_a_charset_is_for_what_is_not_said_to_be_utf_8():
    rules = SyslogRules(1000, "latin-1", ZoneInfo("UTC"))
    assert parsed(b"<34>a: gr\xfcn", rules)["message"] == "grün"
    assert parsed(b"<34>1 - - - - - - \xef\xbb\xbfgr\xc3\xbcn", rules)["message"] == "grün"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"no priority", "<number>"), (b"<>x", "<number>"), (b"<1234>x", "<number>"),
        (b"<192>x", "priority is 192"), (b"<34>2 - - - - - -", "version is 2"),
        (b"<34>1 - - - -", "4 of the 6"), (b"<34>1 -  - - - - -", "two spaces"),
        (b"<34>1 now - - - - -", "time 'now'"),
        (b"<34>1 2026-02-30T00:00:00Z - - - - -", "does not exist"),
        (b"<34>1 2026-01-01T00:00:00 - - - - -", "is not like"),
        (b"<34>1 0001-01-01T00:00:00+01:00 - - - - -", "does not exist"),
        (b"<34>1 - - - - - words", "structured data"), (b"<34>1 - - - - - [a", "structured data"),
        (b'<34>1 - - - - - [a b="c]', "structured data"),
        (b'<34>1 - - - - - [a b="c" d]', "structured data"),
        (b'<34>1 - - - - - [a b="]"]', "structured data"),
        (b'<34>1 - - - - - [a b="c"]x', "not well-formed from byte 10"),
        (b'<34>1 - - - - - [a b="c"][', "not well-formed"),
        (b"<34>1 - - - - - - \xff", "'\\xff' in it is not utf-8"),
        (b"<34>1 - - - - - - \xef\xbb\xbf\xff", "'\\xff' in it is not utf-8"),
        (b"<34>1 - \xff - - - -", "is not utf-8"), (b"<34>a: \xfcber", "is not utf-8"),
        (b"<34>Feb 30 00:00:00 m a: b", "does not exist"),
        (b"<34>" + b"x" * 997, "more than 1000 bytes"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_a_bad_row_that_says_why(data, why):
    rows, (bad,) = parse_messages([Received(data, "192.0.2.1")], RULES, CAME)
    assert rows.num_rows == 0
    assert (bad.raw, bad.error.code) == (data, "syslog.bad_message")
    assert why in bad.error.message


def test_a_dead_letter_is_read_again_with_changes():
    rows = parse_raw_row(
        RawRow(b"<34>a: b", {}, changes={"host": "m", "severity": "7"}), RULES, CAME
    )
    (row,) = rows.to_pylist()
    assert (row["host"], row["severity"], row["source_address"]) == ("m", 7, None)
    for raw in (
        RawRow(b"broken", {}), RawRow(b"", {}), RawRow(b"<34>a", {}, changes={"nope": "1"}),
        RawRow(b"<34>a", {}, changes={"severity": "high"}),
    ):  # fmt: skip
        assert parse_raw_row(raw, RULES, CAME).code == "syslog.bad_message"


def framed(blocks, kind="auto", most=20):
    """All pieces of a connection, and whether it was closed by us."""
    framing = SyslogFraming(kind, most)
    found = [piece for block in blocks for piece in framing.feed(block)]
    return found + ([] if framing.is_broken else list(framing.end())), framing.is_broken


STREAMS = [
    (b"<1>a\n<2>b\r\n\n<3>c", [(b"<1>a", ""), (b"<2>b", ""), (b"<3>c", "")]),
    (b"4 <1>a6 <2>\nb\n10 <3>4 <4>xx", [(b"<1>a", ""), (b"<2>\nb", ""), (b"<3>4 <4>xx", "")]),
    (b"4 <1>a\n<2>b\n4 <3>c\n", [(b"<1>a", ""), (b"<2>b", ""), (b"<3>c", "")]),
    (b"4 <1>a9 <2>", [(b"<1>a", ""), (b"9 <2>", CUT)]),
    (b"30 " + b"x" * 30 + b"4 <1>a", [(b"x" * 21, ""), (b"<1>a", "")]),
    (b"<" + b"x" * 50 + b"\n<1>a\n", [(b"<" + b"x" * 20, ""), (b"<1>a", "")]),
]


@pytest.mark.parametrize(("stream", "pieces"), STREAMS, ids=range(len(STREAMS)))
def test_messages_of_a_connection_are_told_apart_however_they_are_cut(stream, pieces):
    for size in range(1, len(stream) + 1):
        blocks = [stream[n : n + size] for n in range(0, len(stream), size)]
        assert framed(blocks) == (pieces, False), size


@pytest.mark.parametrize(
    ("stream", "kind", "piece"),
    [
        (b"4x <1>", "auto", (b"4x <1>", NO_COUNT)),
        (b"<1>a\n", "octet-counting", (b"<1>a\n", NO_COUNT)),
        (b"1234567890 <1>a", "auto", (b"1234567890 <1>a", NO_COUNT)),
    ],
)  # fmt: skip
def test_a_connection_whose_next_message_cannot_be_found_is_closed(stream, kind, piece):
    assert framed([stream], kind) == ([piece], True)


def test_lines_may_begin_with_digits_where_that_is_said():
    assert framed([b"4 <1>a\n5\n"], "newline")[0] == [(b"4 <1>a", ""), (b"5", "")]
