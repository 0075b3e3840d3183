"""Schema registries: what they are asked, who we are there, and what they said.

- `schemas`        which schema of a registry messages have
- `client`         asks a registry over HTTP
- `http`           one question over HTTP, bounded in time and size
- `tokens`         tokens for a registry, from an issuer
- `keys`           the keys of a registry: where it is, what it is asked
- `login`          who we are there, and by which way it is reached
- `tls`            its certificates, and ours
- `apicurio_keys`  keys of Apicurio's own converter as those of Confluent's
"""
