"""The connectors that a folder of files wants, for `plan` and `apply`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from penstock.cli.remote.changes import Wanted
from penstock.cli.walking import walked
from penstock.model.errors import ConfigError
from penstock.pipeline_files.connector_file import read_connector, state_of
from penstock.pipeline_files.files import ENDINGS


def wanted_of(folder: Path) -> Iterator[Wanted]:
    """Yield the connectors of a folder, or of one file, in order of path.

    Raises:
        ConfigError: a file cannot be read; two have one name; there is none.
    """
    named: dict[str, Path] = {}
    for file in walked([folder]):
        one = read_connector(file)
        if one.name in named:
            raise ConfigError(
                "config.duplicate_name",
                f"{named[one.name]} and {file} are both named {one.name}",
                fix="Give every connector a name of its own.",
                config_path="name",
            )
        named[one.name] = file
        yield Wanted(one.name, one.config, state_of(one), str(file))
    if not named:
        raise ConfigError(
            "apply.no_files",
            f"there is no file of a connector in {folder}",
            fix=f"Their names end with {', '.join(ENDINGS)}.",
        )
