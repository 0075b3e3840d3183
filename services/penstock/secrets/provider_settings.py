"""The secret providers of a worker: `config.providers` and its keys, as in Kafka Connect.

    config.providers=file,vault
    config.providers.file.param.allowed.paths=/etc/penstock/secrets
    config.providers.vault.param.address=https://vault.example:8200
    config.providers.vault.param.token.file=/run/vault/token

The name of a provider is its kind, unless `config.providers.<name>.class` has the kind; the classes
of Kafka are accepted as kinds. Only paths and names that are explicitly allowed can be read: there
is no default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.model.config_def import ConfigKey, did_you_mean, parse
from penstock.model.errors import ConfigError, nearest_names
from penstock.model.pattern import Pattern
from penstock.secrets.local_providers import DirectoryProvider, EnvironmentProvider, FileProvider
from penstock.secrets.provider import Provider
from penstock.secrets.resolution import Secrets
from penstock.telemetry.redaction import Secret

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
    ConfigKey("allowed.paths", "list", required=True, doc="Folders or files that may be read."),
    ConfigKey("ttl", "duration", 0.0, doc="How often they are read again; 0: never."),
)
_ENV: Final = (
    ConfigKey("allowlist.pattern", required=True, doc="Pattern of names that may be read."),
)
_VAULT: Final = (
    ConfigKey("address", required=True, doc="https://HOST:PORT"),
    ConfigKey("token", "password", "", doc="Token of the worker."),
    ConfigKey("token.file", doc="File with the token; an agent may renew it."),
    ConfigKey("role.id", default="", doc="Role (AppRole) for the login."),
    ConfigKey("secret.id.file", doc="File with the secret id of the role."),
    ConfigKey("namespace", default="", doc="Namespace of Vault."),
    ConfigKey("mount", default="secret", doc="Where the engine is mounted."),
    ConfigKey("engine.version", "int", 2, doc="2, or 1 for engines without `data` in paths."),
    ConfigKey("authority", doc="PEM file with the authority of the certificate of Vault."),
    ConfigKey("ttl", "duration", 300.0, doc="When secrets without a lease are read again; 0: no."),
)
KEYS: Final = {"file": _FILES, "dir": _FILES, "env": _ENV, "vault": _VAULT}


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider: its name in references, its kind and its parameters."""

    name: str
    kind: str
    params: Mapping[str, Any] = field(repr=False)

    def create_provider(self) -> Provider:
        """Create the provider."""
        return _FACTORIES[self.kind](self.params)


def create_secrets(providers: Sequence[ProviderSettings]) -> Secrets:
    """Create the secrets of a worker from the settings of its providers."""
    return Secrets({one.name: one.create_provider() for one in providers})


def parse_provider_settings(
    names: Sequence[str], config: Mapping[str, str]
) -> tuple[ProviderSettings, ...]:
    """Return the settings of the named providers. `config`: the keys below `config.providers.`.

    Raises:
        ConfigError: a provider is unknown, or one of its parameters is invalid.
    """
    for key in config:
        name = key.removeprefix(f"{PROVIDERS}.").partition(".")[0]
        if name not in names:
            raise ConfigError(
                "secrets.unknown_provider",
                f"`{key}` is a key of a provider that `{PROVIDERS}` does not name",
                fix=did_you_mean(name, names) if names else f"Add `{name}` to `{PROVIDERS}`.",
                config_path=key,
            )
    return tuple(_parse_provider(name, config) for name in names)


def _parse_provider(name: str, config: Mapping[str, str]) -> ProviderSettings:
    start = f"{PROVIDERS}.{name}."
    kind = _find_kind(config.get(f"{start}class", name), name, f"{start}class")
    params = {}
    for key, value in config.items():
        if key.startswith(f"{start}param."):
            params[key.removeprefix(f"{start}param.")] = value
        elif key.startswith(start) and key != f"{start}class":
            raise ConfigError(
                "config.unknown_key",
                f"the key `{key}` does not exist",
                fix=f"Parameters of a provider are `{start}param.<name>`.",
                config_path=key,
            )
    values = parse(KEYS[kind], params, f"{start}param")
    if "allowlist.pattern" in values:
        values["allowlist.pattern"] = Pattern.parse(
            values["allowlist.pattern"], f"{start}param.allowlist.pattern"
        )
    return ProviderSettings(name, kind, values)


def _find_kind(written: str, name: str, path: str) -> str:
    kind = _CLASSES.get(written)
    if kind is None:
        short = sorted(set(_CLASSES.values()))
        near = nearest_names(written, short)
        raise ConfigError(
            "secrets.unknown_provider",
            f"{written[:200]!r} is not a kind of secret provider",
            fix=f"{did_you_mean(written, short)} Set it in `{path}` of {name!r}.",
            config_path=path,
            suggestion=near[0] if near else "",
        )
    return kind


def _allowed_paths(params: Mapping[str, Any]) -> list[Path]:
    return [Path(folder).absolute() for folder in params["allowed.paths"]]


def _create_vault(params: Mapping[str, Any]) -> Provider:
    # imported here, so that only workers with this provider load an HTTP client
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
            ttl_s=params["ttl"] or None,
        )
    )


_FACTORIES: Final[Mapping[str, Callable[[Mapping[str, Any]], Provider]]] = {
    "file": lambda params: FileProvider(_allowed_paths(params), params["ttl"] or None),
    "dir": lambda params: DirectoryProvider(_allowed_paths(params), params["ttl"] or None),
    "env": lambda params: EnvironmentProvider(params["allowlist.pattern"], os.environ),
    "vault": _create_vault,
}
