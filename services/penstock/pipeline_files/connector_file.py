"""Reads the file of a connector, for every verb alike.

It is one of these, as properties, YAML or JSON:

- a configuration of Kafka Connect, flat or nested, whose `transforms:` may be a list
- a pipeline: `source:`, `transforms:`, `sink:`, and the framework's keys beside them
- the body of `POST /connectors`: `name`, `config`, `initial_state`

`state:` says how it should be in a cluster, `tests:` is for `penstock test`; neither is a key of
the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from penstock.model.config_def import changed_errors
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import ConfigError, nearest
from penstock.pipeline_files.files import flatten, read_document

CHAINS: Final = ("transforms", "predicates")


def chain(kind: str, written: Any) -> dict[str, str]:
    """Return the keys of a chain. It is a list of members, or a mapping by their names, or only
    names, whose keys stand elsewhere.

    Raises:
        ConfigError: `config.chain`.
    """
    if written is None:
        return {}
    if isinstance(written, str):
        return {kind: written}
    config: dict[str, str] = {}
    names: list[str] = []
    for name, keys in _members(kind, written):
        if name in names:
            raise _malformed(f"{kind}.{name}", f"two of `{kind}` are named `{name}`")
        names.append(name)
        config.update(flatten({f"{kind}.{name}": keys}))
    return {kind: ",".join(names), **config}


def _members(kind: str, written: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the members by name, each with its keys."""
    if isinstance(written, Mapping):
        for name, keys in written.items():
            if not isinstance(keys, Mapping):
                raise _malformed(f"{kind}.{name}", f"`{name}` of `{kind}` is no mapping of keys")
            yield str(name), keys
        return
    if not isinstance(written, list):
        raise _malformed(kind, f"`{kind}` is no list")
    for place, member in enumerate(written, 1):
        if isinstance(member, str):
            yield member, {}
        elif isinstance(member, Mapping):
            name = member.get("name") or f"{kind[:-1]}{place}"
            if not isinstance(name, str):
                raise _malformed(kind, f"the name of {place} of `{kind}` is no text")
            yield name, {key: value for key, value in member.items() if key != "name"}
        else:
            raise _malformed(kind, f"{place} of `{kind}` is no mapping of keys")


def _malformed(where: str, what: str) -> ConfigError:
    return ConfigError(
        "config.chain",
        what,
        fix="Write a list: `- {name: keep, type: Filter, condition: …}`.",
        config_path=where,
    )


STEERED: Final = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}
"""What `state` may be, and how a connector gets there."""

TESTS: Final = "tests"
ENDS: Final = ("source", "sink")
_STATE: Final = "state"
_BODY: Final = ("name", "config", "initial_state")
_CLASS: Final = "connector.class"
_CLASSES: Final = (_CLASS, *(f"{end}.{_CLASS}" for end in ENDS))
_SIGNS: Final = frozenset({*_CLASSES, *CHAINS, "tasks.max", "topics", "topics.regex"})


def read_connector(path: Path) -> Connector:
    """Return the connector of a file. Its target state is UNSPECIFIED where the file has none.

    Raises:
        ConfigError: `config.…`; what is wrong in the file.
    """
    document = read_document(path)
    with naming(path):
        return connector_of(document, path.stem)


def connector_of(document: Mapping[str, Any], default_name: str) -> Connector:
    """Return the connector that a document describes, by a name for one that has none.

    Raises:
        ConfigError: `config.…`; what is wrong in it.
    """
    if _is_body(document):
        _check_body(document)
        written, named, state = document["config"], document.get("name"), "initial_state"
    else:
        written, named, state = _without(document, _STATE, TESTS), None, _STATE
    config = flatten(_without(written, *CHAINS))
    for members in CHAINS:
        config.update(chain(members, written.get(members)))
    name = str(named or config.get("name") or default_name)
    if config.setdefault("name", name) != name:
        raise ConfigError(
            "config.name_mismatch",
            f"the configuration of {name[:200]!r} names another connector",
            fix="Leave `name` out of the configuration.",
            config_path="name",
        )
    pipeline = _CLASS not in config and f"source.{_CLASS}" in config
    kind = ConnectorKind.PIPELINE if pipeline else ConnectorKind.UNSPECIFIED
    return Connector(name, config, kind, target_state=_target_state(document.get(state)))


def state_of(connector: Connector) -> str:
    """Return the state that a connector's file has; empty where it leaves the state alone."""
    state = connector.target_state
    return "" if state is TargetState.UNSPECIFIED else state.name


def is_connector(document: Mapping[str, Any]) -> bool:
    """Tell whether a document is meant as a connector, perhaps with mistakes: other files lie in
    the same folders, but one that is passed over by mistake is a connector that is not there.
    """
    if _is_body(document):
        body = {"name", "config"} <= document.keys() <= {*_BODY, _STATE}
        return body or is_connector(document["config"])
    if document.keys() >= set(ENDS):
        return True
    keys = list(_keys(document))
    return not _SIGNS.isdisjoint(keys) or any(
        "." in key and nearest(key, _CLASSES) for key in keys if len(key) < 2 * len(_CLASS)
    )


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in what is wrong with it."""
    try:
        yield
    except ConfigError as error:
        raise changed_errors(
            error, lambda found: replace(found, message=f"{path}: {found.message}")
        ) from error


def _is_body(document: Mapping[str, Any]) -> bool:
    own = (_CLASS, "connector", *ENDS)
    return isinstance(document.get("config"), Mapping) and not any(key in document for key in own)


def _check_body(document: Mapping[str, Any]) -> None:
    for field in document:
        if field not in _BODY:
            near = nearest(str(field), _BODY)
            raise ConfigError(
                "config.unknown_field",
                f"beside `config` there is no field `{str(field)[:100]}`",
                fix=f"Did you mean `{near[0]}`?" if near else f"Valid: {', '.join(_BODY)}.",
                config_path=str(field),
            )


def _without(document: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


def _target_state(said: Any) -> TargetState:
    if said is None:
        return TargetState.UNSPECIFIED
    state = said.upper() if isinstance(said, str) else ""  # Kafka Connect takes any case
    if state not in STEERED:
        raise ConfigError(
            "config.target_state",
            f"{str(said)[:100]!r} is no state",
            fix=f"Valid: {', '.join(STEERED)}.",
            config_path=_STATE,
        )
    return TargetState[state]


def _keys(document: Mapping[str, Any]) -> Iterator[str]:
    for key, value in document.items():
        yield str(key)
        if key in {*ENDS, "connector", "tasks"} and isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value)
