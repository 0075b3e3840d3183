"""Files of connectors that a command line names: found in folders, read with their states."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.cli.output import cell_text
from penstock.model.errors import ConfigError
from penstock.pipeline_files.connector_file import is_connector, read_connector, target_state_name
from penstock.pipeline_files.files import FILE_SUFFIXES, read_document

_MAX_NAMED: Final = 5
"""Skipped files that are named; more are counted."""

_FOREIGN_CODES: Final = frozenset(
    {"config.file_malformed", "config.file_not_text", "config.file_too_large"}
)
"""Codes of files that may well be another program's."""


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A connector as its file has it. `state` is empty where the file does not set it."""

    name: str
    config: Mapping[str, str]
    state: str = ""
    file: str = ""


def find_connector_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files among `paths`, and the connector files of the folders, in order of path.
    Print which other files of a folder were skipped.

    Raises:
        ConfigError: `config.file_…`.
    """
    skipped: list[Path] = []
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for file in sorted(path.rglob("*")):
            if file.suffix not in FILE_SUFFIXES or not file.is_file():
                continue
            if _is_connector_file(file):
                yield file
            else:
                skipped.append(file)
    if skipped:
        names = ", ".join(cell_text(str(file)) for file in skipped[:_MAX_NAMED])
        rest = len(skipped) - _MAX_NAMED
        more = f" and {rest} more" if rest > 0 else ""
        print(f"skipped, not connectors: {names}{more}", file=sys.stderr)


def read_desired_connectors(folder: Path) -> Iterator[DesiredConnector]:
    """Yield the connectors of a folder, or of one file, in order of path.

    Raises:
        ConfigError: `config.file_…`, `config.duplicate_name`, `apply.no_files`.
    """
    files: dict[str, Path] = {}
    for file in find_connector_files([folder]):
        connector = read_connector(file)
        name = connector.name
        if name in files:
            raise ConfigError(
                "config.duplicate_name",
                f"{files[name]} and {file} both define the connector {name}",
                fix="Give every connector a name of its own.",
                config_path="name",
            )
        files[name] = file
        yield DesiredConnector(name, connector.config, target_state_name(connector), str(file))
    if not files:
        raise ConfigError(
            "apply.no_files",
            f"{folder} has no connector files",
            fix=f"Their names end with {', '.join(FILE_SUFFIXES)}.",
        )


def _is_connector_file(file: Path) -> bool:
    try:
        return is_connector(read_document(file))
    except ConfigError as error:
        if error.code not in _FOREIGN_CODES:
            raise
        # a connector with a syntax error must not be skipped: `apply --prune` would delete it
        if error.code == "config.file_malformed" and b"connector" in file.read_bytes():
            raise
        return False
