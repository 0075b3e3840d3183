"""Paths of a configuration that mean another file on each machine. Pure.

In `penstock run FILE` a path is relative to the file. A worker of a cluster was never in that
folder: there it would be relative to the one in which the worker was started.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from penstock.model.connector import ConnectorKind
from penstock.model.errors import Diagnostic, ErrorClass, Severity

_SQLITE: Final = re.compile(r"(?:jdbc:)?sqlite:(?://)?([^:?]+)", re.IGNORECASE)
"""A URL whose database is a file."""

_MAX_SHOWN: Final = 200


def find_relative_paths(
    config: Mapping[str, str], file_keys: Collection[str], kind: ConnectorKind
) -> Iterator[Diagnostic]:
    """Yield a finding for each key with a relative path: an error in a pipeline, whose paths
    `penstock run` resolves; a warning in others, which Kafka Connect takes.

    Args:
        config: The configuration, with its references.
        file_keys: The keys whose values are paths on the machine of the worker.
        kind: The kind of the connector.
    """
    for key, value in config.items():
        paths = value.split(",") if key in file_keys else _SQLITE.findall(value)
        relative = next((one for path in paths if _is_relative(one := path.strip())), None)
        if relative is not None:
            yield _finding(key, relative, kind)


def _is_relative(path: str) -> bool:
    # what begins with a reference is known to the worker alone
    return bool(path) and "://" not in path and not path.startswith(("/", "${", "***"))


def _finding(key: str, path: str, kind: ConnectorKind) -> Diagnostic:
    shown, is_pipeline = path[:_MAX_SHOWN], kind is ConnectorKind.PIPELINE
    quote = '"' if is_pipeline else ""  # YAML's `{file: ${…}}` needs it; properties have none
    written = f"{quote}${{env:DATA_DIR}}/{shown.removeprefix('./')}{quote}"
    return Diagnostic(
        "config.relative_path",
        f"`{key}` is {shown!r}: on a worker that is relative to the folder in which it was "
        "started, and not to a file with this configuration",
        ErrorClass.CONFIG,
        Severity.ERROR if is_pipeline else Severity.WARNING,
        fix="Write the absolute path that it has on the workers. Or write "
        f"{written}, set DATA_DIR where the workers run, and in their file `config.providers=env` "
        "and "
        "`config.providers.env.param.allowlist.pattern=DATA_DIR`.",
        config_path=key,
    )
