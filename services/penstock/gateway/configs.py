"""Configurations as people write them, and as they are shown. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from penstock.gateway.errors import InvalidConfigError
from penstock.gateway.request_body import Number, objects
from penstock.model.config_size import check_keys, check_size
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import ConfigError, Diagnostic, Severity, nearest
from penstock.model.sensitive import MASK, is_mask, shown

_FIELDS: Final = ("name", "config", "initial_state")
_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")


def requested(body: Any) -> Connector:
    """Return the connector that a body asks for, with its initial state.

    Raises:
        ConfigError: a field is unknown, or not what it has to be.
    """
    fields = objects(body, "the connector")
    for field in fields:
        if field not in _FIELDS:
            near = nearest(field, _FIELDS)
            raise ConfigError(
                "config.unknown_field",
                f"there is no field `{field[:100]}`",
                fix=f"Did you mean `{near[0]}`?" if near else f"Valid: {', '.join(_FIELDS)}.",
            )
    config = texts(fields.get("config"))
    name = fields.get("name", config.get("name"))
    if name is not None and not isinstance(name, str):
        raise ConfigError(
            "config.not_text", "`name` is no text", fix="Put it in quotes.", config_path="name"
        )
    if name is None or not name.strip():
        raise ConfigError(
            "config.missing", "the connector has no name", fix="Set `name`.", config_path="name"
        )
    return named(name.strip(), config, _state(fields.get("initial_state")))


def named(
    name: str, config: Mapping[str, str], state: TargetState = TargetState.UNSPECIFIED
) -> Connector:
    """Return a connector of a name, whose configuration must not say another one.

    Raises:
        ConfigError: `config.name_mismatch`.
    """
    said = config.get("name", name).strip()
    if said != name:
        raise ConfigError(
            "config.name_mismatch",
            f"the configuration of {name[:200]!r} names another connector, {said[:200]!r}",
            fix="Leave `name` out of the configuration.",
            config_path="name",
        )
    kind = ConnectorKind.UNSPECIFIED  # a plugin says what it is
    if "source.connector.class" in config and "connector.class" not in config:
        kind = ConnectorKind.PIPELINE
    return Connector(name, {**config, "name": name}, kind, target_state=state)


def texts(value: Any) -> dict[str, str]:
    """Return a configuration: values are text, as they were written; a null is no value. Its size
    is compared before anything is looked for in it: a body of 4 MiB may have 300,000 keys.

    Raises:
        ConfigError: `config.not_text`, `config.too_large`.
    """
    given = objects(value, "the configuration")
    check_keys("this connector", len(given))
    pairs = ((key, text(key, one)) for key, one in given.items())
    found = {key: one for key, one in pairs if one is not None}
    check_size("this connector", found)
    return found


def text(key: str, value: Any) -> str | None:
    """Return a value as text, None for null.

    Raises:
        ConfigError: `config.not_text`.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case Number():
            return str(value)
        case None | str():
            return value
    raise ConfigError(
        "config.not_text",
        f"`{key[:200]}` is {'a list' if isinstance(value, list) else 'an object'}",
        fix="Write a list as text with commas; an object has no form in a configuration.",
        config_path=key,
    )


def masked(config: Mapping[str, str], secret_keys: Collection[str] = ()) -> dict[str, str]:
    """Return a configuration without the secrets that somebody wrote into it (invariant 9);
    `secret_keys` are those that the plugins say are some.
    """
    return {key: shown(key, value, sensitive=key in secret_keys) for key, value in config.items()}


def unmasked(
    wanted: Mapping[str, str], stored: Mapping[str, str], secret_keys: Collection[str] = ()
) -> dict[str, str]:
    """Return a configuration that was read masked and is written back: what is still the mask of
    what is stored means that.
    """
    seen = masked(stored, secret_keys)
    return {key: stored[key] if value == seen.get(key) else value for key, value in wanted.items()}


def refuse_masks(config: Mapping[str, str], secret_keys: Collection[str] = ()) -> None:
    """Refuse what is shown for a secret where the secret should be: it would be stored as one, and
    nothing would work.

    Raises:
        ConfigError: `config.masked`.
    """
    for key, value in config.items():
        if is_mask(key, value, sensitive=key in secret_keys):
            raise ConfigError(
                "config.masked",
                f"`{key}` has {MASK}, which is shown for a secret, and is none",
                fix="Write the secret, or a reference to it; or leave the value exactly as it was "
                "shown.",
                config_path=key,
            )


def check_findings(findings: Iterable[Diagnostic]) -> None:
    """Refuse a configuration in which something is wrong; all of it is said.

    Raises:
        InvalidConfigError: `config.invalid`.
    """
    wrong = [finding for finding in findings if finding.severity is Severity.ERROR]
    if not wrong:
        return
    raise InvalidConfigError(wrong)


def _state(value: Any) -> TargetState:
    if value is None:
        return TargetState.UNSPECIFIED
    state = value.upper() if isinstance(value, str) else value  # as Kafka Connect takes it
    if state not in _STATES:
        raise ConfigError(
            "config.target_state",
            f"{str(value)[:100]!r} is no initial state",
            fix=f"Valid: {', '.join(_STATES)}.",
            config_path="initial_state",
        )
    return TargetState[state]
