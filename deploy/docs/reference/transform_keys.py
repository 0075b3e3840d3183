"""The page of transforms and predicates."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from penstock.transform.change import TypeDefinition
from penstock.transform.configuration import MEMBER_KEYS, PREDICATE_KEYS
from penstock.transform.registry import PREDICATES_BY_NAME, TRANSFORMS_BY_NAME
from reference.markdown import codes, key_table, page, plain

_VALUE, _KEY = "$Value", "$Key"

_OTHERS: Final = {
    "python": "Calls a function of Python with rows or batches. The function is in a file of "
    "`functions.path` of the worker, or beside the pipeline file.",
}
"""Descriptions of types that are not classes of the same name."""


def write_page() -> str:
    """Return the page."""
    return page(
        "Transforms",
        "A chain of transforms stands between a source and a sink. `services/penstock/transform/"
        "README.md` tells in detail what each of them does, and where it differs from Kafka "
        "Connect. `X` and `X$Value` change the row, `X$Key` changes the key of the row.",
        "Any other `type` is a transform of an installed plugin, whose keys belong to the plugin.",
        "## Keys of every transform",
        key_table((*MEMBER_KEYS, *PREDICATE_KEYS)),
        "A predicate has only `type` and `plugin.version` of these.",
        *_sections(TRANSFORMS_BY_NAME.values(), 2),
        "## Predicates",
        *_sections(PREDICATES_BY_NAME.values(), 3),
    )


def _sections(definitions: Iterable[TypeDefinition[Any]], level: int) -> Iterator[str]:
    groups: dict[str, list[TypeDefinition[Any]]] = {}
    unique = {id(one): one for one in definitions}
    for one in unique.values():
        groups.setdefault(_base_name(one), []).append(one)
    for name in sorted(groups, key=str.lower):
        definition = groups[name][0]
        names = [alias for member in groups[name] for alias in member.names]
        yield f"{'#' * level} {name}"
        yield _description(definition)
        yield f"Names: {codes(names)}."
        yield key_table(definition.keys) if definition.keys else "It has no keys of its own."


def _base_name(definition: TypeDefinition[Any]) -> str:
    return definition.names[0].removesuffix(_KEY).removesuffix(_VALUE)


def _description(definition: TypeDefinition[Any]) -> str:
    """Return what the class of a transform says of itself."""
    build = definition.build
    function: Any = build.func if isinstance(build, partial) else build
    name = _base_name(definition)
    kind = getattr(sys.modules[function.__module__], name, None)
    return plain(_OTHERS.get(name) or inspect.getdoc(kind) or "")
