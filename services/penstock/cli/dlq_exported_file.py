"""The file of `penstock dlq export`, as a user corrected it.

What it says beside the bytes of rows is for the user: it is compared with the dead letters when the
file is replayed, and never believed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

from penstock.cli.dlq_export import ABOUT, FORM, VERSION, text_of_json
from penstock.model.dead_letter_queue import MAX_DEAD_LETTERS, DeadLetterId, parse_ids
from penstock.model.errors import ConfigError

_CHANGEABLE: Final = ("raw", "raw_base64", "raw_json", "set")
_COMPARED: Final = 100
"""Dead letters that are compared at once with those of the file."""

_MAX_LINE_BYTES: Final = 256 << 20
"""Longest line: the bytes of a row, of 64 MiB at most, in base64 or with escapes."""

ReadLetters = Callable[[str], Iterable[Mapping[str, Any]]]
"""Returns the dead letters with these ids, whole."""


@dataclass(slots=True)
class FileEdits:
    """The dead letters of a file, how many it had when it was exported, and what was changed."""

    count: int
    ids: list[DeadLetterId] = field(default_factory=list)
    edits: dict[str, Any] = field(default_factory=dict)


def read_exported(path: Path, connector: str, read: ReadLetters) -> FileEdits | None:
    """Return the dead letters of a file, and what a user changed of them; None: it is no file of
    `penstock dlq export`.

    Raises:
        ConfigError: `config.file_unreadable`, `letters.other_connector`, `letters.other_letter`,
            `letters.bad_edit`, `letters.too_many`.
    """
    with _opened(path) as file:
        header = _header(file.readline(_MAX_LINE_BYTES))
        if header is None:
            return None
        _require(path, header, connector)
        found = FileEdits(int(header["count"]))
        seen: set[DeadLetterId] = set()
        lines = _lines(path, file)
        while some := list(islice(lines, _COMPARED)):
            ids = [_id(path, number, line) for number, line in some]
            for at, id_ in enumerate(ids):
                if id_ in seen:
                    raise _bad(path, some[at][0], f"has the dead letter {id_} once more")
                seen.add(id_)
            if len(seen) > MAX_DEAD_LETTERS:
                raise _too_many(path)
            stored = {one["id"]: one for one in read(",".join(map(str, ids)))}
            for (number, line), id_ in zip(some, ids, strict=True):
                edit = _edit(path, number, line, stored[str(id_)])
                if edit is not None:
                    found.edits[str(id_)] = edit
            found.ids += ids
    return found


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise ConfigError(
            "config.file_unreadable",
            f"{path} cannot be read: {error.strerror}",
            fix="Correct the path of --edits, or its permissions.",
        ) from error


def _header(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and FORM in found else None


def _require(path: Path, header: Mapping[str, Any], connector: str) -> None:
    """Refuse a file that is not one of this connector."""
    of, count = header.get("connector"), header.get("count")
    if header[FORM] != VERSION or not isinstance(of, str) or type(count) is not int:
        raise _bad(path, 1, f"is not the first line of an export of version {VERSION}")
    if of != connector:
        raise ConfigError(
            "letters.other_connector",
            f"{path} has dead letters of {of[:200]!r}, and was given for {connector!r}",
            fix=f"Replay it where it is from: penstock dlq replay {shlex.quote(of[:200])} "
            f"--edits {shlex.quote(str(path))}",
            config_path="replay.letters",
        )


def _lines(path: Path, file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines of dead letters with their numbers."""
    number = 1
    while line := file.readline(_MAX_LINE_BYTES):
        number += 1
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _bad(path, number, f"is not JSON: {str(error)[:200]}") from None
        if not isinstance(found, dict):
            raise _bad(path, number, "is not a JSON object")
        yield number, found


def _id(path: Path, number: int, line: Mapping[str, Any]) -> DeadLetterId:
    ids: Sequence[DeadLetterId] = ()
    if isinstance(line.get("id"), str):
        ids = parse_ids(line["id"])
    if len(ids) != 1:
        raise _bad(path, number, "does not have the `id` of one dead letter")
    return ids[0]


def _edit(
    path: Path, number: int, line: Mapping[str, Any], stored: Mapping[str, Any]
) -> dict[str, Any] | str | None:
    """Return what a user changed of a dead letter; None: nothing."""
    _require_same(path, number, line, stored)
    text, columns = _text(path, number, line), line.get("set")
    if columns is not None and not isinstance(columns, dict):
        raise _bad(path, number, "has a `set` that is no JSON object")
    is_text = stored["raw_base64"] is None
    is_changed = text is not None and not (is_text and text == (stored["raw"] or ""))
    if is_changed and columns:
        raise _bad(path, number, "has a changed `raw` and `set`: write one of them")
    return text if is_changed else columns or None


def _text(path: Path, number: int, line: Mapping[str, Any]) -> str | None:
    """Return the text of the row; None: it is not UTF-8."""
    if "raw" in line and "raw_json" in line:
        raise _bad(path, number, "has `raw` and `raw_json`: remove one of them")
    if "raw_json" in line:
        return text_of_json(line["raw_json"])
    text = line.get("raw")
    if text is None and "raw_base64" not in line:
        raise _bad(path, number, "has no `raw`")
    if text is not None and not isinstance(text, str):
        raise _bad(path, number, "has a `raw` that is no text in quotes")
    return text


def _require_same(
    path: Path, number: int, line: Mapping[str, Any], stored: Mapping[str, Any]
) -> None:
    """Refuse what a user cannot change, and the line of another dead letter."""
    for name in line:
        if name not in {"id", *ABOUT, *_CHANGEABLE}:
            raise _bad(path, number, f"has the unknown member `{name[:100]}`")
    same = ABOUT[0]
    if same in line and line[same] != stored[same]:
        raise ConfigError(
            "letters.other_letter",
            f"line {number} of {path}: dead letter {stored['id']} is another one now, which failed "
            f"at {stored[same]}",
            fix="Export the dead letters again: `penstock dlq export NAME`.",
            config_path="replay.letters",
        )
    for name in ABOUT:
        if name not in line or line[name] != stored[name]:
            raise _bad(path, number, f"has another `{name}`, or none, which cannot be changed")
    if "raw_base64" in line and line["raw_base64"] != stored["raw_base64"]:
        raise _bad(path, number, "has another `raw_base64`: write the row as a text into `raw`")


def _bad(path: Path, number: int, what: str) -> ConfigError:
    return ConfigError(
        "letters.bad_edit",
        f"line {number} of {path} {what}",
        fix="Correct the line, or export the dead letters again: `penstock dlq export NAME`.",
        config_path="replay.edits",
    )


def _too_many(path: Path) -> ConfigError:
    return ConfigError(
        "letters.too_many",
        f"{path} has more than {MAX_DEAD_LETTERS} dead letters",
        fix=f"Replay it in parts of at most {MAX_DEAD_LETTERS}, each with the first line.",
        config_path="replay.letters",
    )
