"""Reads worker, connector and pipeline files: properties, JSON or YAML, told apart by their ending.

Every value becomes text, as Kafka Connect has it. A nested mapping joins its keys with dots, a list
of scalars becomes a comma-separated text, so that a YAML file is only a kinder way to write the
same keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import javaproperties
import yaml

from penstock.model.errors import ConfigError

MAX_FILE_BYTES = 4 << 20
"""A configuration larger than this is a mistake (a data file given in its place)."""


def read_flat(path: Path) -> dict[str, str]:
    """Return the keys of a file, flat.

    Raises:
        ConfigError: `config.file_*` when it cannot be read or parsed.
    """
    text = _text(path)
    if path.suffix not in {".json", ".yaml", ".yml"}:
        return _properties(path, text)
    document = _document(path, text)
    if set(document) == {"name", "config"} and isinstance(document["config"], Mapping):
        document = {**document["config"], "name": document["name"]}  # the body of POST /connectors
    return dict(_flatten("", document))


def read_document(path: Path) -> dict[str, Any]:
    """Return the nested document of a YAML or JSON file."""
    return _document(path, _text(path))


def flatten(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a nested document as flat keys."""
    return dict(_flatten("", document))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(
                "config.file_too_large",
                f"{path} is larger than {MAX_FILE_BYTES} bytes",
                fix="Name a configuration file, not a data file.",
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            "config.file_unreadable",
            f"{path}: {error.strerror}",
            fix="Check the path and its permissions.",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            "config.file_not_text",
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}",
            fix="Save the file as UTF-8; if it is no text at all, name the right one.",
        ) from error


def _properties(path: Path, text: str) -> dict[str, str]:
    try:
        return dict(javaproperties.loads(text))
    except (ValueError, javaproperties.InvalidUEscapeError) as error:
        raise _malformed(path, error, "properties: a line each, `key=value`") from error


def _malformed(path: Path, error: Exception, form: str) -> ConfigError:
    where = " ".join(str(error).split())
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:  # it draws a picture else
        mark = error.problem_mark
        where = f"{error.problem}: line {mark.line + 1} column {mark.column + 1}"
    return ConfigError(
        "config.file_malformed",
        f"{path}: {where}",
        fix=f"Correct that place. The file is read as {form}; its ending says so.",
    )


def _document(path: Path, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (json.JSONDecodeError, yaml.YAMLError) as error:
        form = "JSON: one object" if path.suffix == ".json" else "YAML: lines of `key: value`"
        raise _malformed(path, error, form) from error
    if not isinstance(document, dict):
        raise ConfigError(
            "config.file_malformed",
            f"{path} holds no mapping of keys to values",
            fix="Write `key: value` lines.",
        )
    return document


def _flatten(prefix: str, node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flatten(f"{path}.", value)
        elif value is not None:
            yield path, _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_scalar(item) for item in value)
    return str(value)
