"""The configuration of a connector.

- `sections`           keys by owner: framework, chain, plugins; checks across keys
- `settings`           the framework's keys, as values
- `reach`              what a node lets connectors reach and override
- `resolved_config`    a configuration with the values of its secret references
- `plugin_transforms`  transforms that plugins provide
"""
