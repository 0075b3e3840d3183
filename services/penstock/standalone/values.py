"""What the scalars of JSON and YAML mean: the texts that they were written as, in configurations,
or JSON's values, in rows.

YAML alone would make `1.10` a number, `no` a boolean, `12:30:00` a number of seconds and a day that
is in no calendar an exception. Here a scalar without quotes is what JSON says that it is, and a
text otherwise. `true` and `null` may also be written as YAML writes them.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, ClassVar, Final

import yaml

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
