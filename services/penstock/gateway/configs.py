"""Configurations as users write them, and as responses show them. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.gateway.request_input import JsonNumber, require_object
from penstock.model.config_def import check_config_size, check_key_count
from penstock.model.config_redaction import REDACTED, is_redacted, redact_value
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import ConfigError, nearest_names

_FIELDS: Final = ("name", "config", "initial_state")
_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")


def parse_connector(body: Any) -> Connector:
    """Return the connector of a request body, with its initial state.

    Raises:
        ConfigError: a field is unknown, or has the wrong type.
    """
    fields = require_object(body, "the connector")
    for field in fields:
        if field not in _FIELDS:
            near = nearest_names(field, _FIELDS)
            raise ConfigError(
                "config.unknown_field",
                f"unknown field `{field[:100]}`",
                fix=f"Did you mean `{near[0]}`?" if near else f"Valid: {', '.join(_FIELDS)}.",
            )
    config = parse_config(fields.get("config"))
    name = fields.get("name", config.get("name"))
    if name is not None and not isinstance(name, str):
        raise ConfigError(
            "config.not_text",
            "`name` is not a string",
            fix="Write the name in quotes.",
            config_path="name",
        )
    if name is None or not name.strip():
        raise ConfigError(
            "config.missing", "the connector has no name", fix="Set `name`.", config_path="name"
        )
    return make_connector(name.strip(), config, _parse_state(fields.get("initial_state")))


def make_connector(
    name: str, config: Mapping[str, str], state: TargetState = TargetState.UNSPECIFIED
) -> Connector:
    """Return the connector with this name and configuration.

    Raises:
        ConfigError: `config.name_mismatch`: the configuration has another name.
    """
    other_name = config.get("name", name).strip()
    if other_name != name:
        raise ConfigError(
            "config.name_mismatch",
            f"`name` in the configuration is {other_name[:200]!r}, expected {name[:200]!r}",
            fix="Remove `name` from the configuration.",
            config_path="name",
        )
    kind = ConnectorKind.UNSPECIFIED  # validation by the plugin sets it
    if "source.connector.class" in config and "connector.class" not in config:
        kind = ConnectorKind.PIPELINE
    return Connector(name, {**config, "name": name}, kind, target_state=state)


def parse_config(value: Any) -> dict[str, str]:
    """Return the configuration of a request body: each value is the text that was written.

    A key whose value is null is left out. The number of keys is checked first: a body of 4 MiB may
    have 300,000 keys.

    Raises:
        ConfigError: `config.not_text`, `config.too_large`.
    """
    given = require_object(value, "the configuration")
    check_key_count("this connector", len(given))
    pairs = ((key, parse_value(key, one)) for key, one in given.items())
    found = {key: one for key, one in pairs if one is not None}
    check_config_size("this connector", found)
    return found


def parse_value(key: str, value: Any) -> str | None:
    """Return a value as text; None for null.

    Raises:
        ConfigError: `config.not_text`.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case JsonNumber():
            return str(value)
        case None | str():
            return value
    raise ConfigError(
        "config.not_text",
        f"`{key[:200]}` is {'a list' if isinstance(value, list) else 'an object'}, expected a "
        "string, a number or a boolean",
        fix="Write a list as a string with commas. A configuration cannot have objects.",
        config_path=key,
    )


def redact_config(config: Mapping[str, str], secret_keys: Collection[str] = ()) -> dict[str, str]:
    """Return a configuration whose secret values are redacted (invariant 9).

    `secret_keys` are the keys that the plugins declare as secrets.
    """
    return {
        key: redact_value(key, value, sensitive=key in secret_keys) for key, value in config.items()
    }


@dataclass(frozen=True, slots=True)
class ConfigView:
    """Configurations as one caller sees them: secrets are `***`, except those of the connectors
    that `unredacted` names.
    """

    unredacted: Collection[str] = ()

    def show(self, connector: Connector, config: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the configuration of a connector, or the `config` of a task of it."""
        config = connector.config if config is None else config
        redacted = redact_config(config, connector.secret_keys)
        if connector.name not in self.unredacted:
            return redacted
        # a plugin may give its tasks what a reference to a secret was resolved to
        written = connector.config
        return {k: v if written.get(k) == v else redacted[k] for k, v in config.items()}


REDACTED_VIEW: Final = ConfigView()


def restore_secrets(
    config: Mapping[str, str], stored: Mapping[str, str], secret_keys: Collection[str] = ()
) -> dict[str, str]:
    """Return a configuration in which redacted values are replaced by the stored secrets.

    A client may read a redacted configuration and write it back: values that are still as they were
    shown mean the stored values.
    """
    shown = redact_config(stored, secret_keys)
    return {key: stored[key] if value == shown.get(key) else value for key, value in config.items()}


def refuse_redacted(config: Mapping[str, str], secret_keys: Collection[str] = ()) -> None:
    """Refuse a redacted value where a secret is expected: it would be stored as the secret.

    Raises:
        ConfigError: `config.masked`.
    """
    for key, value in config.items():
        if is_redacted(key, value, sensitive=key in secret_keys):
            raise ConfigError(
                "config.masked",
                f"`{key}` is {REDACTED}, which replaces a secret in responses, expected a secret",
                fix="Write the secret or a reference to it, or send the value exactly as it was "
                "returned.",
                config_path=key,
            )


def _parse_state(value: Any) -> TargetState:
    if value is None:
        return TargetState.UNSPECIFIED
    state = value.upper() if isinstance(value, str) else value  # any case, as in Kafka Connect
    if state not in _STATES:
        raise ConfigError(
            "config.target_state",
            f"`initial_state` is {str(value)[:100]!r}, which is not an initial state",
            fix=f"Valid: {', '.join(_STATES)}.",
            config_path="initial_state",
        )
    return TargetState[state]
