"""Reads worker, connector and pipeline files: properties, JSON or YAML, told apart by their ending.

Every value is text, as Kafka Connect has it, and stays as it was written. A nested mapping joins
its keys with dots, a list of scalars becomes a comma-separated text, so that a YAML file is only a
kinder way to write the same keys.
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


class Texts(yaml.SafeLoader):
    """Reads YAML whose scalars are texts as they were written; what is empty is None."""

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
        """Refuse what is said twice: nobody would see which one counts. What is merged may be said
        anew.
        """
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                if key.value in seen:
                    problem = f"`{key.value[:200]}` is there twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


class Values(Texts):
    """Reads YAML whose scalars are JSON's values."""


class Rows(yaml.SafeDumper):
    """Writes YAML that `Values` reads as what was written."""

    yaml_implicit_resolvers: Any = {}  # noqa: RUF012 - as its parent has it


def _construct(loader: Values, node: yaml.ScalarNode) -> Any:
    text = str(loader.construct_scalar(node))
    try:
        return json_value(text.lower())
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from error


for reads in (Texts, Rows):
    reads.add_implicit_resolver(_NULL, re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
    reads.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])
for reads in (Values, Rows):
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
    Values.add_constructor(tag, _construct)


def json_texts(text: str) -> Any:
    """Return a JSON text whose numbers are texts as they were written.

    Raises:
        ValueError: it is no JSON, or says something twice.
    """
    return json.loads(
        text, parse_int=str, parse_float=str, parse_constant=_refuse, object_pairs_hook=_object
    )


def json_value(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is no JSON, says something twice, or has a number that is too large for one.
    """
    try:
        return json.loads(
            text, parse_float=_finite, parse_constant=_refuse, object_pairs_hook=_object
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"`{twice[:200]}` is there twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:100]} is larger than a number can be")
    return value


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


MAX_FILE_BYTES = 4 << 20
"""A configuration larger than this is a mistake (a data file given in its place)."""


DEEPEST: Final = 100
"""Levels of nesting: what goes on for ever exhausts a parser's stack."""

MOST_VALUES: Final = 1_000_000
"""Values of a file (invariant 12). Aliases of YAML may mean more than memory holds."""

ENDINGS: Final = (".yaml", ".yml", ".json", ".properties")
"""Of the names of files; any other is read as properties."""


def read_flat(path: Path) -> dict[str, str]:
    """Return the keys of a file, flat.

    Raises:
        ConfigError: `config.file_*` when it cannot be read or parsed, `config.not_text`.
    """
    return flatten(read_document(path))


def read_document(path: Path) -> dict[str, Any]:
    """Return the document of a file, as nested as it is: scalars are texts as they were written.

    Raises:
        ConfigError: `config.file_*`.
    """
    text = _text(path)
    if path.suffix in {".json", ".yaml", ".yml"}:
        return _document(path, text, values=False)
    return dict(_properties(path, text))


def read_values(path: Path) -> dict[str, Any]:
    """Return the document of a YAML or JSON file: scalars are JSON's values.

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
        document = dict(javaproperties.loads(text))
        _check_content(document)
    except (ValueError, javaproperties.InvalidUEscapeError) as error:
        raise _malformed(path, error, "properties: a line each, `key=value`") from error
    return document


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


def _document(path: Path, text: str, *, values: bool) -> dict[str, Any]:
    form = "JSON: one object" if path.suffix == ".json" else "YAML: lines of `key: value`"
    try:
        if path.suffix == ".json":
            document = json_value(text) if values else json_texts(text)
        else:
            document = yaml.load(text, Values if values else Texts)  # noqa: S506 - both are safe
        _check_content(document)
    except (ValueError, yaml.YAMLError) as error:
        raise _malformed(path, error, form) from error
    except RecursionError as error:
        raise _malformed(path, ValueError("it is nested too deeply"), form) from error
    if not isinstance(document, dict):
        raise ConfigError(
            "config.file_malformed",
            f"{path} holds no mapping of keys to values",
            fix="Write `key: value` lines.",
        )
    return document


def _check_content(document: Any) -> None:
    """Refuse what is too deep, what is too much when each alias is written out, and texts that no
    UTF-8 can hold.
    """
    left, now = MOST_VALUES, [document]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for one in now:
            if isinstance(one, str):
                one.encode()
            elif isinstance(one, dict | list):
                left -= len(one)
                if left < 0:
                    raise ValueError(f"it has more than {MOST_VALUES:,} values")
                inner.extend(one)
                inner.extend(one.values() if isinstance(one, dict) else ())
        if not inner:
            return
        now = inner
    raise ValueError("it is nested too deeply")


def _flatten(prefix: str, node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        if not isinstance(key, str):
            raise _no_text(prefix.rstrip("."), "has a key that is no text")
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
            raise _no_text(path, "has a list of objects or lists, which no key can hold")
        return ",".join(_scalar(path, item) for item in value if item is not None)
    return str(value)


def _no_text(path: str, what: str) -> ConfigError:
    return ConfigError(
        "config.not_text",
        f"`{path[:200]}` {what}",
        fix="Write a text, or a list of texts; of mappings only `transforms`, `predicates` and "
        "`tests` are lists.",
        config_path=path,
    )
