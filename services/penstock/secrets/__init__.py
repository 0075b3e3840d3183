"""Secrets by reference: `${provider:path:key}` in a connector's configuration.

References are stored, shown and versioned; values are looked up by the worker that needs them, each
time it needs them, and are in no store, log or answer (invariant 9). The form and the names of the
providers' settings are Kafka Connect's (KIP-297).

- `references`   where references stand in a configuration, and values put in their place
- `resolving`    asks the providers, and says until when the answers hold
- `settings`     which providers a worker has
- `files`        `${file:/path/app.properties:key}` and `${dir:/path:name}`, under allowed folders
- `environment`  `${env:NAME}`, of allowed names
- `vault`        `${vault:path:key}`, from HashiCorp Vault's key-value engine
- `provider`     what a provider is
"""

from penstock.secrets.references import Reference
from penstock.secrets.resolving import NO_SECRETS, Resolved, Secrets
from penstock.secrets.settings import (
    PROVIDERS,
    ProviderSettings,
    provider_settings,
    secrets_of,
)

__all__ = [
    "NO_SECRETS",
    "PROVIDERS",
    "ProviderSettings",
    "Reference",
    "Resolved",
    "Secrets",
    "provider_settings",
    "secrets_of",
]
