"""Secrets by reference: `${provider:path:key}` in the configuration of a connector.

References are stored, shown and versioned. The worker that needs a value resolves its reference
each time; values are never in a store, log or response (invariant 9). The form of references and
the settings of providers are those of Kafka Connect (KIP-297).

- `resolution`         finds references in a configuration and replaces them by values
- `provider_settings`  the providers of a worker, from its configuration
- `provider`           the port of a provider
- `local_providers`    `${file:/path/app.properties:key}`, `${dir:/path:name}`, `${env:NAME}`
- `vault`              `${vault:path:key}`, from HashiCorp Vault
"""
