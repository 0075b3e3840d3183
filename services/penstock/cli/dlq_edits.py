"""What a user changes of dead letters before they are replayed: typed, in an editor, in a file."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from penstock.model.errors import ConfigError
from penstock.pipeline_files.files import ValueDumper, parse_json, read_values

Row: TypeAlias = "Mapping[str, Any] | str"
"""The columns of a row; or the text of one that the source could not read."""

_FILE_HEADER: Final = """# Change the rows of these dead letters, then save the file and quit the
# editor. Rows that you do not change are replayed as they are. Dead letters that
# you delete from this file are not replayed; of an empty file none is. A row that
# the source could not read is its text.
"""


def parse_assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the columns of COLUMN=VALUE pairs. A value is the text that was typed, which is taken
    by the type of its column; a JSON text is what stands between its quotes, `null` is no value.

    Raises:
        ConfigError: `letters.bad_edit`.
    """
    columns: dict[str, Any] = {}
    for pair in pairs:
        column, sign, value = pair.partition("=")
        if not sign or not column:
            raise ConfigError(
                "letters.bad_edit", f"{pair!r} is not COLUMN=VALUE", fix="Write amount=12."
            )
        columns[column] = _typed_value(value)
    return columns


def _typed_value(text: str) -> str | None:
    try:
        found = parse_json(text)
    except ValueError:
        return text
    # 1.10 stays as it is typed: only the column tells whether it is a text or a number
    return found if found is None or isinstance(found, str) else text


def read_edits(path: Path) -> dict[str, Any]:
    """Return the changed columns of a YAML or JSON file, or whole texts, by dead letter.

    Raises:
        ConfigError: `config.file_*`, `letters.bad_edit`.
    """
    return _by_dead_letter(read_values(path), str(path))


@contextmanager
def edit_rows(rows: Mapping[str, Row]) -> Iterator[dict[str, Row]]:
    """Open rows in the editor of `VISUAL` or `EDITOR`; yield the changed columns, or the changed
    text of a row that is one, by dead letter. A dead letter that was deleted from the file is
    missing. When the block fails, the file is kept and named, so that no edit is lost.

    Raises:
        ConfigError: `editor.failed`, `config.file_*`, `letters.bad_edit`.
    """
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    file = folder / "letters.yaml"
    text = yaml.dump(dict(rows), Dumper=ValueDumper, sort_keys=False, allow_unicode=True)
    file.write_text(_FILE_HEADER + text, encoding="utf-8")
    try:
        _run_editor(file)
        edited = _read_edited(file)
        yield {
            dead_letter: _changes(rows.get(dead_letter, {}), row)
            for dead_letter, row in edited.items()
        }
    except BaseException:
        hint = "name the dead letters and replay with --edits FILE"
        print(f"Your edits are kept in {file}: {hint}", file=sys.stderr)
        raise
    shutil.rmtree(folder)


def _changes(before: Row, after: Row) -> Row:
    if isinstance(before, str) or isinstance(after, str):
        return {} if before == after else after
    return changed_columns(before, after)


def changed_columns(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns whose values differ; a removed column is null."""
    removed = {column: None for column in before if column not in after}
    return {**{c: v for c, v in after.items() if c not in before or before[c] != v}, **removed}


def _run_editor(file: Path) -> None:
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        subprocess.run([*editor, str(file)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(
            "editor.failed",
            f"the editor {editor[0]} failed: {error}",
            fix="Name an editor in EDITOR, or write the changes into a file: --edits.",
        ) from error


def _read_edited(file: Path) -> dict[str, Any]:
    """Return the rows of an edited file; none of an empty one, which is how users cancel."""
    lines = file.read_bytes().splitlines()
    if all(not line.strip() or line.lstrip().startswith(b"#") for line in lines):
        return {}
    return _by_dead_letter(read_values(file), str(file))


def _by_dead_letter(document: Mapping[str, Any], place: str) -> dict[str, Any]:
    for dead_letter, columns in document.items():
        if not isinstance(dead_letter, str) or not isinstance(columns, dict | str):
            raise ConfigError(
                "letters.bad_edit",
                f"{place}: {str(dead_letter)[:100]} has neither columns nor a text",
                fix="Write the columns to change below each id: `0/17: {amount: 12}`; or the whole "
                "text of a row that could not be read: `0/17: '3,Ada,2024-12-31'`.",
            )
    return dict(document)
