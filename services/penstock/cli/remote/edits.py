"""What a person changes of the rows of dead letters: options, a file, an editor."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from penstock.model.errors import ConfigError
from penstock.standalone.files import read_document

_ABOUT: Final = """# Change the rows of these dead letters, then save and leave. What is not
# changed goes as it is; a letter that is taken out of this file is not replayed.
"""


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
            found[column] = json.loads(value)
        except ValueError:
            found[column] = value
    return found


def from_file(path: Path) -> dict[str, Any]:
    """Return the changes of a YAML or JSON file, by letter.

    Raises:
        ConfigError: `config.file_*`, `letters.bad_edit`.
    """
    return _by_letter(read_document(path), str(path))


def edited(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what a person changes of rows, in the editor that `VISUAL` or `EDITOR` names, by
    letter. Letters that are not there any more were taken out.

    Raises:
        ConfigError: `editor.failed`, `letters.bad_edit`.
    """
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        file = Path(folder) / "letters.yaml"
        text = yaml.safe_dump(dict(rows), sort_keys=False, allow_unicode=True)
        file.write_text(_ABOUT + text, encoding="utf-8")
        try:
            subprocess.run([*editor, str(file)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise ConfigError(
                "editor.failed",
                f"{editor[0]} did not end well: {error}",
                fix="Name an editor in EDITOR, or write the changes into a file: --edits.",
            ) from error
        after = _by_letter(read_document(file), "what was edited")
    return {letter: difference(rows.get(letter, {}), row) for letter, row in after.items()}


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
