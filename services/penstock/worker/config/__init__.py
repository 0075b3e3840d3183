"""The configuration of a connector on a worker, which has secrets and bounds.

- `unknown_keys`       keys that a connector does not have, of Kafka Connect's configurations
- `reach`              what a node lets connectors reach and override
- `resolved_config`    a configuration with the values of its secret references
- `plugin_transforms`  transforms that plugins provide
"""
