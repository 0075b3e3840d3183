"""Which providers a worker has: `config.providers` and what follows it, as Kafka Connect has them.

    config.providers=file,vault
    config.providers.file.param.allowed.paths=/etc/penstock/secrets
    config.providers.vault.param.address=https://vault.example:8200
    config.providers.vault.param.token.file=/run/vault/token

A provider's name is its kind, unless `config.providers.<name>.class` says the kind; Kafka's classes
are kinds, too. Nothing can be read that was not allowed by name: there is no default for that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.model.config_def import ConfigKey, did_you_mean, parse
from penstock.model.errors import ConfigError, nearest
from penstock.model.pattern import read_pattern
from penstock.secrets.environment import EnvironmentProvider
from penstock.secrets.files import DirectoryProvider, FileProvider
from penstock.secrets.provider import Provider
from penstock.secrets.resolving import Secrets
from penstock.telemetry import Secret

PROVIDERS: Final = "config.providers"

_KAFKA: Final = "org.apache.kafka.common.config.provider."
_CLASSES: Final[Mapping[str, str]] = {
    "file": "file",
    "dir": "dir",
    "directory": "dir",
    "env": "env",
    "vault": "vault",
    f"{_KAFKA}FileConfigProvider": "file",
    f"{_KAFKA}DirectoryConfigProvider": "dir",
    f"{_KAFKA}EnvVarConfigProvider": "env",
}

_FILES: Final = (
    ConfigKey("allowed.paths", "list", required=True, doc="Folders, or files, that may be read."),
    ConfigKey("ttl", "duration", 0.0, doc="How often they are read again; 0: never."),
)
_ENV: Final = (
    ConfigKey("allowlist.pattern", required=True, doc="Pattern of names that may be read."),
)
_VAULT: Final = (
    ConfigKey("address", required=True, doc="https://HOST:PORT"),
    ConfigKey("token", "password", "", doc="Token of the worker."),
    ConfigKey("token.file", doc="File with its token, which an agent may renew."),
    ConfigKey("role.id", default="", doc="Role (AppRole) to log in with."),
    ConfigKey("secret.id.file", doc="File with the role's secret id."),
    ConfigKey("namespace", default="", doc="Namespace of Vault's."),
    ConfigKey("mount", default="secret", doc="Where the engine is mounted."),
    ConfigKey("engine.version", "int", 2, doc="2, or 1 for engines without `data` in paths."),
    ConfigKey("authority", doc="PEM file that Vault's certificate is checked by."),
    ConfigKey("ttl", "duration", 300.0, doc="When secrets without a lease are read again; 0: no."),
)
_KEYS: Final = {"file": _FILES, "dir": _FILES, "env": _ENV, "vault": _VAULT}


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider: its name in references, what kind it is, and the values of its parameters."""

    name: str
    kind: str
    params: Mapping[str, Any] = field(repr=False)

    def made(self) -> Provider:
        """Return the provider."""
        return _MADE[self.kind](self.params)


def secrets_of(providers: Sequence[ProviderSettings]) -> Secrets:
    """Return the secrets that these providers know."""
    return Secrets({one.name: one.made() for one in providers})


def provider_settings(
    names: Sequence[str], config: Mapping[str, str]
) -> tuple[ProviderSettings, ...]:
    """Return the providers that are named. `config` has the keys behind `config.providers.`.

    Raises:
        ConfigError: one is unknown, or has a parameter that is wrong.
    """
    for key in config:
        name = key.removeprefix(f"{PROVIDERS}.").partition(".")[0]
        if name not in names:
            raise ConfigError(
                "secrets.unknown_provider",
                f"`{key}` is about a provider that `{PROVIDERS}` does not name",
                fix=did_you_mean(name, names) if names else f"Add `{name}` to `{PROVIDERS}`.",
                config_path=key,
            )
    return tuple(_provider(name, config) for name in names)


def _provider(name: str, config: Mapping[str, str]) -> ProviderSettings:
    start = f"{PROVIDERS}.{name}."
    kind = _kind(config.get(f"{start}class", name), name, f"{start}class")
    params = {}
    for key, value in config.items():
        if key.startswith(f"{start}param."):
            params[key.removeprefix(f"{start}param.")] = value
        elif key.startswith(start) and key != f"{start}class":
            raise ConfigError(
                "config.unknown_key",
                f"there is no key `{key}`",
                fix=f"Parameters of a provider are `{start}param.<name>`.",
                config_path=key,
            )
    values = parse(_KEYS[kind], params, f"{start}param")
    if "allowlist.pattern" in values:
        values["allowlist.pattern"] = read_pattern(
            values["allowlist.pattern"], f"{start}param.allowlist.pattern"
        )
    return ProviderSettings(name, kind, values)


def _kind(written: str, name: str, path: str) -> str:
    kind = _CLASSES.get(written)
    if kind is None:
        short = sorted(set(_CLASSES.values()))
        near = nearest(written, short)
        raise ConfigError(
            "secrets.unknown_provider",
            f"{written[:200]!r} is no kind of provider",
            fix=f"{did_you_mean(written, short)} Say it in `{path}` of {name!r}.",
            config_path=path,
            suggestion=near[0] if near else "",
        )
    return kind


def _folders(params: Mapping[str, Any]) -> list[Path]:
    return [Path(folder).absolute() for folder in params["allowed.paths"]]


def _vault(params: Mapping[str, Any]) -> Provider:
    # only who asks it loads an HTTP client
    from penstock.secrets.vault import VaultProvider, VaultSettings  # noqa: PLC0415

    def file(name: str) -> Path | None:
        return Path(params[name]) if params[name] else None

    return VaultProvider(
        VaultSettings(
            address=params["address"].rstrip("/"),
            token=Secret(params["token"]) if params["token"] else None,
            token_file=file("token.file"),
            role_id=params["role.id"],
            secret_id_file=file("secret.id.file"),
            namespace=params["namespace"],
            mount=params["mount"],
            engine=params["engine.version"],
            authority=file("authority"),
            ttl=params["ttl"] or None,
        )
    )


_MADE: Final[Mapping[str, Callable[[Mapping[str, Any]], Provider]]] = {
    "file": lambda params: FileProvider(_folders(params), params["ttl"] or None),
    "dir": lambda params: DirectoryProvider(_folders(params), params["ttl"] or None),
    "env": lambda params: EnvironmentProvider(params["allowlist.pattern"], os.environ),
    "vault": _vault,
}
