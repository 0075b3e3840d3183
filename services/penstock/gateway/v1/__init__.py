"""`/v1`: routes that Kafka Connect's REST API does not have. Each is a gRPC call with a path.

- `history`       a connector with its versions, differences, rollback; earlier offsets, rewind
- `validation`    validate, compare, check the connection, list datasets, preview rows before it is
  stored
- `signals`       ask a running source for something, such as to read a table again
- `events`        what happened to connectors, tasks and workers
- `live_streams`  live rows of a task, log lines of workers
- `dead_letters`  counts and lists of dead letters
- `replay`        replays of dead letters
- `cluster`       the workers, drain; statuses of all connectors with their metrics
- `ndjson`        streamed responses: a JSON object on each line
- `bodies`        models that validate requests and serialize responses
"""
