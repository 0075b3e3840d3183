"""Conversion between values of the model and protobuf messages.

Each message has one `…_to_proto` and one `…_from_proto` function. Domain code does not use
protobuf, and this package makes no decisions.

- `config`      connectors, revisions, differences, restarts, log levels
- `connector`   task plans, resolved configurations, prepared transactions
- `record`      values, partitions, offsets
- `error`       diagnostics, and the bounds of many of them in one message
- `metrics`     metrics of tasks and of processes
- `scheduler`   statuses of connectors, tasks, workers
- `worker`      task statuses, installed plugins, their keys, steps of a connection check
- `worker_rows` dead letters, previews, live rows, log lines
"""
