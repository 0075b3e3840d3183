"""Paths of the verbs that take a pipeline file: its state folder, and those of the command line."""

from __future__ import annotations

import argparse
import shutil
from contextlib import suppress
from pathlib import Path

from penstock.cli.progress import print_status
from penstock.model.errors import ConfigError
from penstock.pipeline_files.connector_file import written_name
from penstock.standalone.settings import STATE_FILE, claim_state_dir, pipeline_state_dir


def open_state_dir(arguments: argparse.Namespace, verb: str, *, fresh: bool) -> Path:
    """Return the state folder of a pipeline; `fresh` removes what is in it, and says what that does
    not undo.

    Raises:
        ConfigError: `pipeline.name_taken`, `state.not_writable`.
    """
    if arguments.state is not None:
        if fresh:
            _warn_of_rows(arguments.state)
            shutil.rmtree(arguments.state, ignore_errors=True)
        return Path(arguments.state)
    pipeline, name = arguments.pipeline, ""
    with suppress(ConfigError):  # `dev` waits until its file can be read
        name = written_name(pipeline)
    folder = pipeline_state_dir(pipeline, verb, name)
    if fresh:
        _warn_of_rows(folder)
    claim_state_dir(folder, pipeline, fresh=fresh)
    return folder


def _warn_of_rows(state_dir: Path) -> None:
    if (state_dir / STATE_FILE).exists():
        print_status(
            "warning: --fresh forgets what earlier runs have read, and the sink keeps what they "
            "wrote: rows that are read again are there twice, unless the sink replaces rows by key."
        )


def make_absolute(arguments: argparse.Namespace, *names: str) -> None:
    """Make paths of the command line absolute: the paths in a pipeline file are relative to the
    file, in whatever folder the shell is.
    """
    for name in names:
        value = getattr(arguments, name)
        if isinstance(value, list):
            setattr(arguments, name, [path.absolute() for path in value])
        elif value is not None:
            setattr(arguments, name, value.absolute())
