"""A pipeline file as a connector: `source:`, `transforms:`, `sink:` and framework keys beside
them. Its `tests:` are for `penstock test` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError, nearest
from penstock.standalone.files import flatten, read_document

_CHAINS = ("transforms", "predicates")
_FRAMEWORK = ("errors", "flush", "batch", "delivery", "tasks", "restart", "topic", "replay")
TESTS = "tests"
_KNOWN = frozenset({"name", "source", "sink", TESTS, *_CHAINS, *_FRAMEWORK})


def read_pipeline(path: Path) -> Connector:
    """Return the connector that a pipeline file describes.

    Raises:
        ConfigError: the file cannot be read, or an end is missing, or a key is not known.
    """
    return pipeline_of(read_document(path), default_name=path.stem)


def pipeline_of(document: Mapping[str, Any], default_name: str) -> Connector:
    """Return the connector that a pipeline document describes."""
    _refuse_unknown(document)
    for end in ("source", "sink"):
        if not isinstance(document.get(end), Mapping) or "connector.class" not in document[end]:
            raise ConfigError(
                "pipeline.end_missing",
                f"the pipeline has no {end}",
                fix=f"Add `{end}:` with `connector.class:` and the keys of that connector.",
                config_path=end,
            )
    nested = {key: value for key, value in document.items() if key not in (*_CHAINS, "name", TESTS)}
    config = flatten(nested)
    for chain in _CHAINS:
        config.update(_chain(chain, document.get(chain)))
    name = str(document.get("name", default_name))
    return Connector(name=name, config={"name": name, **config}, kind=ConnectorKind.PIPELINE)


def _refuse_unknown(document: Mapping[str, Any]) -> None:
    for key in document:
        if str(key).split(".")[0] not in _KNOWN:
            near = nearest(str(key), _KNOWN)
            raise ConfigError(
                "config.unknown_key",
                f"`{key}` is not a key of a pipeline",
                fix=f"Did you mean {' or '.join(near)}?" if near else f"Valid: {sorted(_KNOWN)}.",
                config_path=str(key),
            )


def _chain(kind: str, value: Any) -> dict[str, str]:
    """Return a list of named members as Kafka Connect's flat keys; those pass as they are."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {kind: value}
    if isinstance(value, Mapping):
        value = [{"name": name, **member} for name, member in value.items()]
    config: dict[str, str] = {}
    names = []
    for place, member in enumerate(value):
        name = str(member.get("name", f"{kind[:-1]}{place + 1}"))
        names.append(name)
        rest = {key: item for key, item in member.items() if key != "name"}
        config.update(flatten({f"{kind}.{name}": rest}))
    return {kind: ",".join(names), **config}
