"""Commands that ask a gateway: what they share.

- `asking`    requests and their errors, as the product's own
- `showing`   answers as a table, as JSON, as YAML
- `options`   the options that all of them have
- `changes`   what a folder of files would change; pure
"""
