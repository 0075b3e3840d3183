"""The kit for authors of connectors: what a plugin is tested with. The product does not need it.

- `conformance`  tests a plugin, in any language, against the protocol: `penstock plugin test`
- `testing`      ledger, delivery check, fake clock, processes: for tests of pipelines and services
"""
