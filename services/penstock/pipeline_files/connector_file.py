"""Reads the file of a connector or of a pipeline.

It is one of these, as properties, YAML or JSON:

- a configuration of Kafka Connect, flat or nested, whose `transforms:` may be a list
- a pipeline: `source:`, `transforms:`, `sink:`, and the framework's keys beside them
- the body of `POST /connectors`: `name`, `config`, `initial_state`

`state:` is the target state in a cluster, `tests:` is for `penstock test`; neither is a key of the
configuration. In a pipeline `${NAME}`, a name of capital letters, is that environment variable;
`${NAME:-text}` is the text where it is not set, and `$${NAME}` stays as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from penstock.connector_config.keys import (
    CHAIN_PREFIXES,
    FRAMEWORK_KEYS,
    KAFKA_CONNECT_KEYS,
    OVERRIDE_PREFIXES,
)
from penstock.connector_config.sections import split_config
from penstock.model.config_def import combine_errors, map_errors
from penstock.model.config_redaction import is_sensitive_key
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import ConfigError, nearest_names
from penstock.pipeline_files.files import flatten, read_document


def flatten_chain(kind: str, written: Any) -> dict[str, str]:
    """Return the keys of a chain: a list of members, a mapping by name, or names whose keys are
    elsewhere.

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
            raise _malformed_file(f"{kind}.{name}", f"two items of `{kind}` are named `{name}`")
        names.append(name)
        config.update(flatten({f"{kind}.{name}": keys}))
    return {kind: ",".join(names), **config}


def _members(kind: str, written: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the members by name, each with its keys."""
    if isinstance(written, Mapping):
        for name, keys in written.items():
            if not isinstance(keys, Mapping):
                raise _malformed_file(
                    f"{kind}.{name}", f"`{name}` of `{kind}` is not a mapping of keys"
                )
            yield str(name), keys
        return
    if not isinstance(written, list):
        raise _malformed_file(kind, f"`{kind}` is not a list")
    for place, member in enumerate(written, 1):
        if isinstance(member, str):
            yield member, {}
        elif isinstance(member, Mapping):
            name = member.get("name") or f"{kind[:-1]}{place}"
            if not isinstance(name, str):
                raise _malformed_file(kind, f"the name of item {place} of `{kind}` is not text")
            yield name, {key: value for key, value in member.items() if key != "name"}
        else:
            raise _malformed_file(kind, f"item {place} of `{kind}` is not a mapping of keys")


def _malformed_file(where: str, what: str) -> ConfigError:
    return ConfigError(
        "config.chain",
        what,
        fix="Write a list: `- {name: keep, type: Filter, condition: …}`.",
        config_path=where,
    )


TARGET_STATES: Final = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}
"""Values of `state`, each with the command that sets it."""

TESTS: Final = "tests"
PLUGIN_ROLES: Final = ("source", "sink")
_STATE: Final = "state"
_BODY: Final = ("name", "config", "initial_state")
_CLASS: Final = "connector.class"
_CLASSES: Final = (_CLASS, *(f"{end}.{_CLASS}" for end in PLUGIN_ROLES))
_CONNECTOR_KEYS: Final = frozenset(
    {*_CLASSES, *CHAIN_PREFIXES, "tasks.max", "topics", "topics.regex"}
)


def read_connector(path: Path, *, keep_unset: bool = False) -> Connector:
    """Return the connector of a file. Its target state is UNSPECIFIED when the file has none.
    `keep_unset`: as `fill_variables`.

    Raises:
        ConfigError: `config.…`: an error in the file.
    """
    document = read_document(path)
    with naming_file(path):
        return connector_of(document, path.stem, keep_unset=keep_unset)


def connector_of(
    document: Mapping[str, Any], default_name: str, *, keep_unset: bool = False
) -> Connector:
    """Return the connector of a document. `default_name` is its name when it has none.
    `keep_unset`: as `fill_variables`.

    Raises:
        ConfigError: `config.…`: an error in it.
    """
    if _is_body(document):
        _check_body(document)
        written, named, state = document["config"], document.get("name"), "initial_state"
    else:
        written, named, state = _without_keys(document, _STATE, TESTS), None, _STATE
    config = flatten(_without_keys(written, *CHAIN_PREFIXES))
    for members in CHAIN_PREFIXES:
        config.update(flatten_chain(members, written.get(members)))
    name = str(named or config.get("name") or default_name)
    if config.setdefault("name", name) != name:
        raise ConfigError(
            "config.name_mismatch",
            f"the configuration of {name[:200]!r} has the name of another connector",
            fix="Remove `name` from the configuration.",
            config_path="name",
        )
    pipeline = _CLASS not in config and f"source.{_CLASS}" in config
    if pipeline:
        config = fill_variables(config, keep_unset=keep_unset)
    kind = ConnectorKind.PIPELINE if pipeline else ConnectorKind.UNSPECIFIED
    return Connector(name, config, kind, target_state=_target_state(document.get(state)))


def target_state_name(connector: Connector) -> str:
    """Return the target state of a connector's file; empty when it has none."""
    state = connector.target_state
    return "" if state is TargetState.UNSPECIFIED else state.name


def is_connector(document: Mapping[str, Any]) -> bool:
    """Return whether a document is meant as a connector, even one with mistakes: a folder may hold
    other files, but a connector that is skipped by mistake does not run.
    """
    if _is_body(document):
        body = {"name", "config"} <= document.keys() <= {*_BODY, _STATE}
        return body or is_connector(document["config"])
    if document.keys() >= set(PLUGIN_ROLES):
        return True
    keys = list(_keys(document))
    return not _CONNECTOR_KEYS.isdisjoint(keys) or any(
        "." in key and nearest_names(key, _CLASSES) for key in keys if len(key) < 2 * len(_CLASS)
    )


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Add the file to the message of errors."""
    try:
        yield
    except ConfigError as error:
        raise map_errors(
            error, lambda found: replace(found, message=f"{path}: {found.message}")
        ) from error


def _is_body(document: Mapping[str, Any]) -> bool:
    own = (_CLASS, "connector", *PLUGIN_ROLES)
    return isinstance(document.get("config"), Mapping) and not any(key in document for key in own)


def _check_body(document: Mapping[str, Any]) -> None:
    for field in document:
        if field not in _BODY:
            near = nearest_names(str(field), _BODY)
            raise ConfigError(
                "config.unknown_field",
                f"unknown field `{str(field)[:100]}` beside `config`",
                fix=f"Did you mean `{near[0]}`?" if near else f"Valid: {', '.join(_BODY)}.",
                config_path=str(field),
            )


def _without_keys(document: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


def _target_state(value: Any) -> TargetState:
    if value is None:
        return TargetState.UNSPECIFIED
    state = value.upper() if isinstance(value, str) else ""  # Kafka Connect takes any case
    if state not in TARGET_STATES:
        raise ConfigError(
            "config.target_state",
            f"{str(value)[:100]!r} is not a target state",
            fix=f"Valid: {', '.join(TARGET_STATES)}.",
            config_path=_STATE,
        )
    return TargetState[state]


def _keys(document: Mapping[str, Any]) -> Iterator[str]:
    for key, value in document.items():
        yield str(key)
        if key in {*PLUGIN_ROLES, "connector", "tasks"} and isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value)


def written_name(path: Path) -> str:
    """Return the name that a readable file gives its pipeline; empty when it gives none."""
    return str(read_document(path).get("name") or "")


def read_pipeline(path: Path) -> Connector:
    """Return the pipeline of a file.

    Raises:
        ConfigError: the file cannot be read, its source or sink is missing, or a key is not known.
    """
    connector = read_connector(path)
    with naming_file(path):
        return check_pipeline(connector)


_VARIABLE: Final = re.compile(r"\$(\$?)\{([A-Z_][A-Z0-9_]{0,200})(?::-([^}]{0,1000}))?\}")


def fill_variables(
    config: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
    *,
    keep_unset: bool = False,
) -> dict[str, str]:
    """Return the configuration of a pipeline with its environment variables. `keep_unset`: those
    that are not set stay as they are written.

    Those in keys with the name of a secret become references, `${env:NAME}`: they are resolved
    where they are used, and neither stored nor shown. All others become text.

    Raises:
        ConfigError: `pipeline.no_variable`; its detail has all errors.
    """
    errors: list[ConfigError] = []

    def fill(key: str, match: re.Match[str]) -> str:
        escape, name, default = match.groups()
        if escape:
            return match.group()[1:]
        if name not in environment and default is not None:
            return default
        if is_sensitive_key(key):
            return f"${{env:{name}}}"
        if name in environment:
            return environment[name]
        if not keep_unset:
            errors.append(_no_variable(key, name))
        return match.group()

    filled = {key: _VARIABLE.sub(partial(fill, key), value) for key, value in config.items()}
    if errors:
        raise combine_errors(errors)
    return filled


def _no_variable(key: str, name: str) -> ConfigError:
    return ConfigError(
        "pipeline.no_variable",
        f"`{key}` has ${{{name}}}, and the environment has no variable {name}",
        fix=f"Set it: `export {name}=…`. Or write a default, `${{{name}:-text}}`, or the text "
        f"itself, `$${{{name}}}`.",
        config_path=key,
    )


def check_pipeline(connector: Connector) -> Connector:
    """Return the connector as a pipeline with known keys. Its target state is RUNNING: a command
    that names one file runs it, whatever `state` is.

    Raises:
        ConfigError: `config.unknown_key`, `pipeline.end_missing`; its detail has all errors.
    """
    keys = (*CHAIN_PREFIXES, *FRAMEWORK_KEYS, *KAFKA_CONNECT_KEYS, *OVERRIDE_PREFIXES)
    known = {key.split(".")[0] for key in (*PLUGIN_ROLES, *keys)}
    heads = dict.fromkeys(key.split(".")[0] for key in connector.config)
    unknown = [head for head in heads if head not in known]
    errors = [_unknown_key(head, known) for head in unknown]
    misspelt = {near for head in unknown for near in nearest_names(head, known)}
    errors += [
        _missing_role(role)
        for role in PLUGIN_ROLES
        if role not in misspelt and f"{role}.connector.class" not in connector.config
    ]
    if errors:
        raise combine_errors(errors)
    split_config(connector.config, ConnectorKind.PIPELINE)
    return replace(connector, kind=ConnectorKind.PIPELINE, target_state=TargetState.RUNNING)


def _unknown_key(head: str, known: Collection[str]) -> ConfigError:
    near = nearest_names(head, known)
    return ConfigError(
        "config.unknown_key",
        f"`{head}` is not a key of a pipeline",
        fix=f"Did you mean {' or '.join(near)}?" if near else f"Valid: {sorted(known)}.",
        config_path=head,
    )


def _missing_role(role: str) -> ConfigError:
    return ConfigError(
        "pipeline.end_missing",
        f"the pipeline has no {role}",
        fix=f"Add `{role}:` with `connector.class:` and the keys of that connector.",
        config_path=role,
    )
