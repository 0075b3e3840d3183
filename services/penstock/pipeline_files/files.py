"""Reads worker, connector and pipeline files: properties, JSON or YAML, by their suffix.

Every value is text, as in Kafka Connect, and stays as written. Keys of nested mappings are joined
with dots, and a list of scalars becomes comma-separated text, so YAML is a convenient way to write
the same keys.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import javaproperties
import yaml

from penstock.model.errors import ConfigError

_NULL: Final = "tag:yaml.org,2002:null"
_BOOLEAN: Final = "tag:yaml.org,2002:bool"
_WHOLE: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"
_DIGITS: Final = "-0123456789"


class TextLoader(yaml.SafeLoader):
    """Loads YAML whose scalars are text as written; an empty value is None."""

    yaml_implicit_resolvers: Any = {}  # noqa: RUF012 - as its parent has it
    yaml_constructors: ClassVar[Any] = {
        **{
            f"tag:yaml.org,2002:{kind}": yaml.SafeLoader.yaml_constructors[
                f"tag:yaml.org,2002:{kind}"
            ]
            for kind in ("null", "str", "seq", "map")
        },
        **dict.fromkeys((_BOOLEAN, _WHOLE, _FLOAT), yaml.SafeLoader.construct_yaml_str),
        None: yaml.SafeLoader.construct_undefined,
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        """Refuse a key that occurs twice. Merged keys may be overridden."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                if key.value in seen:
                    problem = f"`{key.value[:200]}` occurs twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


class JsonValueLoader(TextLoader):
    """Loads YAML whose scalars are JSON values."""


class ValueDumper(yaml.SafeDumper):
    """Dumps YAML that `JsonValueLoader` loads as the same values."""

    yaml_implicit_resolvers: Any = {}  # noqa: RUF012 - as its parent has it


def _construct(loader: JsonValueLoader, node: yaml.ScalarNode) -> Any:
    text = str(loader.construct_scalar(node))
    try:
        return parse_json(text.lower())
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from error


for reads in (TextLoader, ValueDumper):
    reads.add_implicit_resolver(_NULL, re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
    reads.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])
for reads in (JsonValueLoader, ValueDumper):
    reads.add_implicit_resolver(
        _BOOLEAN, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    reads.add_implicit_resolver(_WHOLE, re.compile(r"^-?(?:0|[1-9][0-9]*)$"), list(_DIGITS))
    reads.add_implicit_resolver(
        _FLOAT,
        re.compile(r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$"),
        list(_DIGITS),
    )
for tag in (_BOOLEAN, _WHOLE, _FLOAT):
    JsonValueLoader.add_constructor(tag, _construct)


def parse_json_texts(text: str) -> Any:
    """Parse JSON whose numbers stay text as written.

    Raises:
        ValueError: it is not JSON, or has a key twice.
    """
    return json.loads(
        text,
        parse_int=str,
        parse_float=str,
        parse_constant=_refuse_constant,
        object_pairs_hook=_unique_object,
    )


def parse_json(text: str) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is not JSON, has a key twice, or a number that is too large.
    """
    try:
        return json.loads(
            text,
            parse_float=_finite,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique_object,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"`{twice[:200]}` occurs twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:100]} is too large for a number")
    return value


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


MAX_FILE_BYTES = 4 << 20
"""A larger configuration is a mistake (a data file in its place)."""


MAX_DEPTH: Final = 100
"""Levels of nesting: more could exhaust the parser's stack."""

MAX_VALUES: Final = 1_000_000
"""Values of a file (invariant 12). YAML aliases could expand to more than memory holds."""

FILE_SUFFIXES: Final = (".yaml", ".yml", ".json", ".properties")
"""Suffixes of files. A file with another suffix is read as properties."""


def read_flat(path: Path) -> dict[str, str]:
    """Return the keys of a file, flat.

    Raises:
        ConfigError: `config.file_*` when it cannot be read or parsed, `config.not_text`.
    """
    return flatten(read_document(path))


def read_document(path: Path) -> dict[str, Any]:
    """Return the document of a file, nested as written. Scalars are text as written.

    Raises:
        ConfigError: `config.file_*`.
    """
    text = _text(path)
    if path.suffix in {".json", ".yaml", ".yml"}:
        return _document(path, text, values=False)
    return dict(_properties(path, text))


def read_values(path: Path) -> dict[str, Any]:
    """Return the document of a YAML or JSON file. Scalars are JSON values.

    Raises:
        ConfigError: `config.file_*`.
    """
    return _document(path, _text(path), values=True)


def flatten(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a nested document as flat keys.

    Raises:
        ConfigError: `config.not_text`.
    """
    return dict(_flatten("", document))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(
                "config.file_too_large",
                f"{path} is larger than {MAX_FILE_BYTES} bytes",
                fix="Pass a configuration file, not a data file.",
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
            fix="Save the file as UTF-8, or pass another file.",
        ) from error


def _properties(path: Path, text: str) -> dict[str, str]:
    try:
        document = dict(javaproperties.loads(text))
        _check_content(document)
    except (ValueError, javaproperties.InvalidUEscapeError) as error:
        raise _malformed_file(path, error, "properties: a line each, `key=value`") from error
    return document


def _malformed_file(path: Path, error: Exception, form: str) -> ConfigError:
    where = " ".join(str(error).split())
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:  # str() has several lines
        mark = error.problem_mark
        where = f"{error.problem}: line {mark.line + 1} column {mark.column + 1}"
    return ConfigError(
        "config.file_malformed",
        f"{path}: {where}",
        fix=f"Correct that place. By its suffix, the file is read as {form}.",
    )


def _document(path: Path, text: str, *, values: bool) -> dict[str, Any]:
    form = "JSON: one object" if path.suffix == ".json" else "YAML: lines of `key: value`"
    try:
        if path.suffix == ".json":
            document = parse_json(text) if values else parse_json_texts(text)
        else:
            document = yaml.load(text, JsonValueLoader if values else TextLoader)  # noqa: S506 - both are safe
        _check_content(document)
    except (ValueError, yaml.YAMLError) as error:
        raise _malformed_file(path, error, form) from error
    except RecursionError as error:
        raise _malformed_file(path, ValueError("it is nested too deeply"), form) from error
    if not isinstance(document, dict):
        raise ConfigError(
            "config.file_malformed",
            f"{path} is not a mapping of keys to values",
            fix="Write `key: value` lines.",
        )
    return document


def _check_content(document: Any) -> None:
    """Refuse deep nesting, too many values after expanding aliases, and text that UTF-8 cannot
    encode.
    """
    left, now = MAX_VALUES, [document]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for one in now:
            if isinstance(one, str):
                one.encode()
            elif isinstance(one, dict | list):
                left -= len(one)
                if left < 0:
                    raise ValueError(f"it has more than {MAX_VALUES:,} values")
                inner.extend(one)
                inner.extend(one.values() if isinstance(one, dict) else ())
        if not inner:
            return
        now = inner
    raise ValueError("it is nested too deeply")


def _flatten(prefix: str, node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        if not isinstance(key, str):
            raise _not_text(prefix.rstrip("."), "has a key that is not text")
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flatten(f"{path}.", value)
        elif value is not None:
            yield path, _scalar(path, value)


def _scalar(path: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        if any(isinstance(item, Mapping | list) for item in value):
            raise _not_text(path, "is a list of objects or lists, which a key cannot hold")
        return ",".join(_scalar(path, item) for item in value if item is not None)
    return str(value)


def _not_text(path: str, what: str) -> ConfigError:
    return ConfigError(
        "config.not_text",
        f"`{path[:200]}` {what}",
        fix="Write text, or a list of text. Only `transforms`, `predicates` and `tests` may be "
        "lists of mappings.",
        config_path=path,
    )
