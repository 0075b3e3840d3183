"""The files of connectors that a command line names: files, and folders of some."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from penstock.cli.remote.showing import cell
from penstock.model.errors import ConfigError
from penstock.pipeline_files.connector_file import is_connector
from penstock.pipeline_files.files import ENDINGS, read_document

_SHOWN: Final = 5
"""Files that are told by name when they were passed over."""

_FOREIGN: Final = frozenset(
    {"config.file_malformed", "config.file_not_text", "config.file_too_large"}
)
"""Codes of files that may well be another program's."""


def walked(given: Iterable[Path]) -> Iterator[Path]:
    """Yield files that are named, and those of folders that are meant as connectors, in order of
    path. Which others were passed over is told on standard error.

    Raises:
        ConfigError: `config.file_…`.
    """
    passed: list[Path] = []
    for path in given:
        if not path.is_dir():
            yield path
            continue
        for file in sorted(path.rglob("*")):
            if file.suffix not in ENDINGS or not file.is_file():
                continue
            if _is_ours(file):
                yield file
            else:
                passed.append(file)
    if passed:
        names = ", ".join(cell(str(file)) for file in passed[:_SHOWN])
        more = f" and {len(passed) - _SHOWN} more" if len(passed) > _SHOWN else ""
        print(f"passed over, as they hold no connector: {names}{more}", file=sys.stderr)


def _is_ours(file: Path) -> bool:
    try:
        return is_connector(read_document(file))
    except ConfigError as error:
        if error.code not in _FOREIGN:
            raise
        # a connector with a slip in it must not be passed over
        if error.code == "config.file_malformed" and b"connector" in file.read_bytes():
            raise
        return False
