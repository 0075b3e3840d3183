"""The domain model: values and pure rules, without I/O, gRPC and Spark.

Connectors and their state
- `connector`: connectors, task plans, target states, states and statuses of tasks
- `status`: statuses of connectors, tasks, workers and the cluster, as users see them
- `metrics`: metrics of tasks and processes
- `logs`: log lines, their filter, log levels
- `identity`: partition ids, canonical JSON, generations

Configurations
- `config_def`: definition and parsing of configuration keys, all errors at once, size bounds;
  definitions of connectors and their keys, for forms
- `config_redaction`: redaction of secrets in configurations, and their comparison
- `pattern`: regular expressions of configurations, matched with a timeout

Rows and columns
- `columns`: the reserved columns of a row
- `arrow_schema`: decoding and checking of schemas, semantic types, times of day
- `decimals`: exact decimal numbers
- `schema_drift`: policies for rows whose columns differ from their target

The data path
- `stream`: events of a task's source and sink, and the driver's commands
- `step`: one step of a transform chain
- `ticket`: the ticket of a micro-batch, and the reports of its slots
- `inspection`: inspected live rows, and previews
- `dead_letter`: the record of a dead letter
- `dead_letter_queue`: queries and replays of dead letters

Everywhere
- `errors`: the error shape, and the exceptions that carry it
- `backoff`: delays between tries
- `faults`: fault points for tests
"""
