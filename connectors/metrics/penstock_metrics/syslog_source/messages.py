"""Messages of syslog as columns: RFC 5424, and what RFC 3164 describes. Pure.

RFC 3164 is a description of what was found, not a rule: its times have no year and no zone, and
senders leave parts out. What begins with `<number>` is a message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final

import pyarrow as pa

from penstock_connector import BadRow, ConnectorError, DataError, RawRow
from penstock_metrics.listener import Received

_TIME: Final = pa.timestamp("us", "UTC")
SCHEMA: Final = pa.schema(
    [
        pa.field("facility", pa.int32(), nullable=False),
        pa.field("severity", pa.int32(), nullable=False),
        pa.field("timestamp", _TIME),
        pa.field("host", pa.string()),
        pa.field("app", pa.string()),
        pa.field("procid", pa.string()),
        pa.field("msgid", pa.string()),
        pa.field("structured_data", pa.string()),
        pa.field("message", pa.string()),
        pa.field("format", pa.string(), nullable=False),
        pa.field("source_address", pa.string()),
        pa.field("received_at", _TIME, nullable=False),
    ]
)

_MAX_PRI: Final = 191
_BOM: Final = b"\xef\xbb\xbf"
_ENDS: Final = b"\r\n\0"
_SHOWN: Final = 100
_PRI: Final = re.compile(rb"<(\d{1,3})>")
_VERSION: Final = re.compile(rb"[1-9]\d{0,2} ")
_NAME: Final = rb'[^\s=\]"]{1,32}'
_PARAM: Final = re.compile(rb" +(" + _NAME + rb')="((?:[^"\\\]]|\\.)*)"', re.DOTALL)
_ELEMENT: Final = re.compile(
    rb"\[(" + _NAME + rb")((?: +" + _NAME + rb'="(?:[^"\\\]]|\\.)*")*) *\]', re.DOTALL
)
_ESCAPED: Final = re.compile(rb'\\(["\\\]])')
_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_BSD_TIME: Final = re.compile(
    rb"[*.]?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(\d{1,2})(?: (\d{4}))?"
    rb" (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?:? ?"
)
_ISO_FIRST: Final = re.compile(rb"(\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d)):? ")
_TAG: Final = re.compile(rb"([^\s:\[\]]{1,128})(?:\[([^\]\s]{0,128})\])?: ?")
_LOCAL_TAG: Final = re.compile(rb"[^\s:\[\]]{1,128}(?:\[[^\]\s]{0,128}\])?:(?: |$)")
_HOST: Final = re.compile(rb"(\S{1,255})(?: +|$)")
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
         b"Dec"), 1,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SyslogRules:
    """How messages are read.

    Attributes:
        max_bytes: Most bytes of a message.
        charset: Of what is not said to be UTF-8.
        zone: Of times that name none.
    """

    max_bytes: int
    charset: str
    zone: tzinfo


def parse_messages(
    pieces: Iterable[Received], rules: SyslogRules, received_at: datetime
) -> tuple[pa.RecordBatch, list[BadRow]]:
    """Return the rows of messages, and those that are none."""
    rows: list[dict[str, Any]] = []
    bad: list[BadRow] = []
    for piece in pieces:
        data = piece.data.rstrip(_ENDS)
        if not data:
            continue
        try:
            if piece.fault:
                raise ValueError(piece.fault)
            row = parse_message(data, rules, received_at)
        except ValueError as error:
            bad.append(BadRow(data, _bad(data, str(error))))
            continue
        row["source_address"], row["received_at"] = piece.sender or None, received_at
        rows.append(row)
    columns = [pa.array([row.get(one.name) for row in rows], one.type) for one in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), bad


def parse_message(data: bytes, rules: SyslogRules, received_at: datetime) -> dict[str, Any]:
    """Return the columns of a message.

    Raises:
        ValueError: It is none; says why.
    """
    if len(data) > rules.max_bytes:
        raise ValueError(f"it has more than {rules.max_bytes} bytes (`syslog.message.max.bytes`)")
    pri = _PRI.match(data)
    if pri is None:
        raise ValueError("it does not begin with `<number>`")
    number = int(pri[1])
    if number > _MAX_PRI:
        raise ValueError(f"its priority is {number}; {_MAX_PRI} is the most")
    rest = data[pri.end() :]
    version = _VERSION.match(rest)
    row: dict[str, Any] = {"facility": number >> 3, "severity": number & 7}
    if version is not None:
        if version[0] != b"1 ":
            raise ValueError(f"its version is {int(version[0])}; RFC 5424 has 1")
        return row | _rfc5424(rest[version.end() :], rules)
    return row | _rfc3164(rest, rules, received_at)


def parse_raw_row(
    row: RawRow, rules: SyslogRules, received_at: datetime
) -> pa.RecordBatch | ConnectorError:
    """Return the row of a dead letter's bytes, or why it is none. Who sent them is not known now,
    and they came now.
    """
    rows, bad = parse_messages([Received(row.raw, "")], rules, received_at)
    if bad or not rows.num_rows:
        return bad[0].error if bad else _bad(row.raw, "it is empty")
    for name, value in row.changes.items():
        at = rows.schema.get_field_index(name)
        if at < 0:
            return _bad(row.raw, f"there is no column {name!r} to change")
        kind = SCHEMA.field(at).type
        try:
            changed = pa.array([value]).cast(kind)
        except pa.ArrowInvalid:
            return _bad(row.raw, f"{str(value)[:_SHOWN]!r} is no value of `{name}`, {kind}")
        rows = rows.set_column(at, SCHEMA.field(at), changed)
    return rows


def _rfc5424(rest: bytes, rules: SyslogRules) -> dict[str, Any]:
    parts = rest.split(b" ", 5)
    if len(parts) < 6:
        raise ValueError(f"its header ends after {len(parts)} of the 6 parts of RFC 5424")
    time, host, app, procid, msgid, rest = parts
    structured, message = _structured_data(rest)
    return {
        "timestamp": None if time == b"-" else _iso_time(time),
        "host": _header(host),
        "app": _header(app),
        "procid": _header(procid),
        "msgid": _header(msgid),
        "structured_data": structured,
        "message": None if message is None else _text(message, rules.charset),
        "format": "rfc5424",
    }


def _structured_data(rest: bytes) -> tuple[str | None, bytes | None]:
    """Return structured data as JSON, and what follows it."""
    found: dict[str, dict[str, Any]] = {}
    at = 0
    while (element := _ELEMENT.match(rest, at)) is not None:
        params = found.setdefault(_utf8(element[1]), {})
        for name, value in _PARAM.findall(element[2]):
            key, text = _utf8(name), _utf8(_ESCAPED.sub(rb"\1", value))
            if key not in params:
                params[key] = text
            elif isinstance(params[key], list):
                params[key].append(text)
            else:
                params[key] = [params[key], text]
        at = element.end()
    if not at:
        if rest[:1] != b"-":
            raise ValueError('its structured data is neither `-` nor `[id name="value"]`')
        at = 1
    if rest[at : at + 1] not in {b"", b" "}:
        raise ValueError(f"its structured data is not well-formed from byte {at + 1} of it on")
    message = rest[at + 1 :] if len(rest) > at else None
    return json.dumps(found, ensure_ascii=False) if found else None, message


def _rfc3164(rest: bytes, rules: SyslogRules, received_at: datetime) -> dict[str, Any]:
    row: dict[str, Any] = {"format": "rfc3164"}
    is_timed = False
    if (bsd := _BSD_TIME.match(rest)) is not None:
        row["timestamp"] = _bsd_time(bsd, rules.zone, received_at)
        rest, is_timed = rest[bsd.end() :], True
    elif (iso := _ISO_FIRST.match(rest)) is not None:
        row["timestamp"] = _iso_time(iso[1])
        rest, is_timed = rest[iso.end() :], True
    # without a time there is no host, and senders on the same machine leave it out, too
    if is_timed and not _LOCAL_TAG.match(rest) and (host := _HOST.match(rest)) is not None:
        row["host"] = _header(host[1])
        rest = rest[host.end() :]
    if (tag := _TAG.match(rest)) is not None:
        row["app"] = _text(tag[1], rules.charset)
        row["procid"] = _text(tag[2], rules.charset) if tag[2] else None
        rest = rest[tag.end() :]
    row["message"] = _text(rest, rules.charset)
    return row


def _iso_time(raw: bytes) -> datetime:
    match = _ISO.fullmatch(raw.decode("ascii", "replace"))
    if match is None:
        raise ValueError(f"its time {_show(raw)} is not like 2003-10-11T22:14:15.003Z")
    try:
        found = datetime.fromisoformat(match[1])
        zone: tzinfo = UTC
        if match[3] != "Z":
            hours, minutes = int(match[3][1:3]), int(match[3][4:6])
            sign = -1 if match[3][0] == "-" else 1
            zone = timezone(sign * timedelta(hours=hours, minutes=minutes))
        micros = int((match[2] or "0").ljust(6, "0")[:6])
        return found.replace(microsecond=micros, tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"its time {_show(raw)} does not exist") from None


def _bsd_time(match: re.Match[bytes], zone: tzinfo, received_at: datetime) -> datetime:
    """Return a time without a year as the one that is nearest to when it came."""
    this = received_at.astimezone(zone).year
    years = [int(match[3])] if match[3] else [this - 1, this, this + 1]
    micros = int((match[7] or b"0").decode().ljust(6, "0")[:6])
    found = []
    for year in years:
        try:
            local = datetime(
                year, _MONTHS[match[1]], int(match[2]), int(match[4]), int(match[5]),
                int(match[6]), micros, zone,
            )  # fmt: skip
            found.append(local.astimezone(UTC))
        except (ValueError, OverflowError):
            continue  # 29 February is not in each
    if not found:
        raise ValueError(f"its time {_show(match[0].strip())} does not exist")
    return min(found, key=lambda one: abs(one - received_at))


def _header(raw: bytes) -> str | None:
    if not raw:
        raise ValueError("its header has two spaces; a part without a value is `-`")
    return None if raw == b"-" else _utf8(raw)


def _text(raw: bytes, charset: str) -> str:
    if raw.startswith(_BOM):
        return _decoded(raw[len(_BOM) :], "utf-8")
    return _decoded(raw, charset)


def _utf8(raw: bytes) -> str:
    return _decoded(raw, "utf-8")


def _decoded(raw: bytes, charset: str) -> str:
    try:
        return raw.decode(charset)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{_show(raw[error.start : error.start + 4])} in it is not {charset} (`syslog.charset`)"
        ) from None


def _show(raw: bytes) -> str:
    return repr(raw[:_SHOWN])[1:]


def _bad(data: bytes, why: str) -> DataError:
    return DataError(
        "syslog.bad_message",
        f"{data[:_SHOWN].decode('utf-8', 'replace')!r}: {why}",
        fix="Correct what sends it, or replay the dead letter corrected.",
    )
