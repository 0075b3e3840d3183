"""What a person changes of the rows of dead letters: options, a file, an editor."""

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
from typing import Any, Final

import yaml

from penstock.model.errors import ConfigError
from penstock.pipeline_files.files import Rows, json_value, read_values

_ABOUT: Final = """# Change the rows of these dead letters, then save and leave. What is not
# changed goes as it is; a letter that is taken out of this file is not replayed,
# and of an empty file none is.
"""
_AGAIN: Final = "name the letters and replay with --edits FILE"


def assigned(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the columns of COLUMN=VALUE, whose values are JSON, or else text.

    Raises:
        ConfigError: `letters.bad_edit`.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        column, sign, value = pair.partition("=")
        if not sign or not column:
            raise ConfigError(
                "letters.bad_edit", f"{pair!r} is not COLUMN=VALUE", fix="Write amount=12."
            )
        try:
            found[column] = json_value(value)
        except ValueError:
            found[column] = value
    return found


def from_file(path: Path) -> dict[str, Any]:
    """Return the changes of a YAML or JSON file, by letter.

    Raises:
        ConfigError: `config.file_*`, `letters.bad_edit`.
    """
    return _by_letter(read_values(path), str(path))


@contextmanager
def editing(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, dict[str, Any]]]:
    """Give what a person changes of rows, in the editor that `VISUAL` or `EDITOR` names, by letter.
    Letters that are not there any more were taken out. What was edited is kept in its file, which
    is named, unless all that is done with it ends well.

    Raises:
        ConfigError: `editor.failed`, `config.file_*`, `letters.bad_edit`.
    """
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    file = folder / "letters.yaml"
    text = yaml.dump(dict(rows), Dumper=Rows, sort_keys=False, allow_unicode=True)
    file.write_text(_ABOUT + text, encoding="utf-8")
    try:
        _edit(file)
        after = _after(file)
        yield {letter: difference(rows.get(letter, {}), row) for letter, row in after.items()}
    except BaseException:
        print(f"What you edited is kept in {file}: {_AGAIN}", file=sys.stderr)
        raise
    shutil.rmtree(folder)


def _edit(file: Path) -> None:
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        subprocess.run([*editor, str(file)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(
            "editor.failed",
            f"{editor[0]} did not end well: {error}",
            fix="Name an editor in EDITOR, or write the changes into a file: --edits.",
        ) from error


def _after(file: Path) -> dict[str, Any]:
    """Return the rows that a person has left; none of an empty file, as editors are given up."""
    lines = file.read_bytes().splitlines()
    if all(not line.strip() or line.lstrip().startswith(b"#") for line in lines):
        return {}
    return _by_letter(read_values(file), str(file))


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that differ; those that are gone are null."""
    gone = {column: None for column in before if column not in after}
    return {**{c: v for c, v in after.items() if c not in before or before[c] != v}, **gone}


def _by_letter(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    for letter, columns in document.items():
        if not isinstance(letter, str) or not isinstance(columns, dict):
            raise ConfigError(
                "letters.bad_edit",
                f"{where}: {str(letter)[:100]} has no columns",
                fix="Write letters with the columns that change: `0/17: {amount: 12}`.",
            )
    return dict(document)
