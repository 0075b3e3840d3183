"""Conversion between values of the model and protobuf messages.

A `Codec` converts a dataclass and a message field by field, by name; what differs is in its table.
Domain code does not use protobuf, and this package makes no decisions.

- `codec`        the codec, and the rules by which fields are converted
- `config`       connectors, revisions, differences, restarts, stored plans, log levels
- `connector`    task plans, configured connectors, prepared transactions, keys
- `error`        diagnostics
- `message_budget`  bounds of the statuses of many tasks in one message
- `offset`       claims, the history of offsets, rewinds
- `process`      metrics of processes
- `record`       values, partitions, offsets: written by hand
- `scheduler`    statuses of connectors, tasks, workers, the cluster
- `worker`       statuses and metrics of tasks, plugins, results of admin operations, datasets
- `worker_rows`  dead letters, previews, live rows, log lines
"""
