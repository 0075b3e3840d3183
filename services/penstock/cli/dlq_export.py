"""`penstock dlq export`: rows that the source could not read, in a file to correct and replay.

Lines of JSON. The first one says whose dead letters these are and what to do with them; each other
one is a dead letter: its bytes, and why they are no row. `dlq_exported_file` reads it.
"""

from __future__ import annotations

import argparse
import base64
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from penstock.cli.errors import EXIT_FAILED
from penstock.cli.gateway_client import GatewayClient, url_path
from penstock.model.dead_letter_queue import MAX_DEAD_LETTERS

IDS_HELP: Final = "0/17, or 0/17-20 for four of them"

FORM: Final = "penstock_letters"
"""The member by which the first line is known; its value is the version."""

VERSION: Final = 1
ABOUT: Final = ("failed_at", "code", "message", "fix", "dataset", "partition", "offset")
"""Members of a line that a user cannot change. The first one differs where a dead letter of the
same name is another one: its connector was deleted, and created again."""

_CORRECT: Final = (
    'Change `raw` or `raw_json` in the line of a dead letter, or add "set": {"COLUMN": "VALUE"}. '
    "Lines that you do not change are replayed as they are; those that you delete are not."
)

_SPOOLED_BYTES: Final = 8 << 20
"""Bytes of an export that wait in memory for its number of dead letters; more are in a file."""


def describe_export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("ids", nargs="*", metavar="ID", help=IDS_HELP)
    parser.add_argument("--code", default="", help="code of the error")
    parser.add_argument("--dataset", default="", help="dataset of the row")
    parser.add_argument("--since", default="", help="no older ones: 2026-01-31T08:00:00Z")
    parser.add_argument(
        "--bytes", action="store_true", help="only the bytes, as they were: a line for each"
    )


def export(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    """Write the dead letters that were selected to standard output. Returns the exit code."""
    path = url_path("v1", "connectors", arguments.connector, "letters")
    query = {name: getattr(arguments, name) for name in ("code", "dataset", "since")}
    query |= {"whole": "true", "limit": MAX_DEAD_LETTERS, "waiting": "true"}
    ids = ",".join(arguments.ids)
    query |= {"ids": ids} if ids else {"stage": "read"}
    written = left_out = 0
    with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as lines:
        for one in gateway.stream("GET", path, **query):
            if "counts" in one:
                continue
            raw = _raw_bytes(one)
            if raw is None:
                left_out += 1
                print(f"{one['id']} has a row with columns: see `dlq show`", file=sys.stderr)
                continue
            line = raw if raw.endswith(b"\n") else raw + b"\n"
            lines.write(line if arguments.bytes else _letter_line(one))
            written += 1
        lines.seek(0)
        if not arguments.bytes:
            sys.stdout.buffer.write(_header_line(gateway, arguments.connector, written))
        shutil.copyfileobj(lines, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    more = f"; there may be more than {MAX_DEAD_LETTERS}: choose with --code or --since"
    print(f"{written} written{more if written == MAX_DEAD_LETTERS else ''}", file=sys.stderr)
    return EXIT_FAILED if left_out else 0


def _header_line(gateway: GatewayClient, connector: str, count: int) -> bytes:
    """Return the first line. Where a connector has one end only, the other is its topic."""
    found = gateway.get(url_path("connectors", connector))
    config, topics = found["config"], ""
    for name in ("topic", "topics", "topics.regex"):
        topics = topics or str(config.get(name, ""))
    ends = {end: config.get(f"{end}.connector.class", topics) for end in ("source", "sink")}
    if "connector.class" in config:
        ends[found["type"]] = config["connector.class"]
    return _line({
        FORM: VERSION,
        "connector": connector,
        "pipeline": " → ".join(filter(None, ends.values())),
        "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "count": count,
        "correct": _CORRECT,
        "replay": f"penstock dlq replay {shlex.quote(connector)} --edits FILE",
    })  # fmt: skip


def _letter_line(letter: Mapping[str, Any]) -> bytes:
    """Return the line of a dead letter, as the gateway has it."""
    own = {"id": letter["id"], **_bytes_of(letter)}
    return _line(own | {name: letter[name] for name in ABOUT})


def _raw_bytes(letter: Mapping[str, Any]) -> bytes | None:
    """Return the bytes that the source could not read; None: it read them."""
    if letter["raw_base64"] is not None:
        return base64.b64decode(letter["raw_base64"])
    if letter["raw"] is not None:
        return str(letter["raw"]).encode()
    return b"" if letter["stage"] == "read" else None


def _line(members: Mapping[str, Any]) -> bytes:
    return text_of_json(members).encode() + b"\n"


def _bytes_of(letter: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bytes as members of a line: those of a message are JSON, which is easier to change
    than the text of it.
    """
    if letter["raw_base64"] is not None:
        return {"raw_base64": letter["raw_base64"]}
    text = str(letter["raw"] or "")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    is_same = isinstance(found, dict) and text_of_json(found) == text
    return {"raw_json": found} if is_same else {"raw": text}


def text_of_json(value: Any) -> str:
    """Return the text that `raw_json` stands for."""
    return json.dumps(value, ensure_ascii=False)
