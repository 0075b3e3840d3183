"""The domain model: values and pure rules, without I/O, gRPC and Spark.

Connectors and their state
- `connector`: connectors, task plans, target states, states and statuses of tasks
- `status`: statuses of connectors, tasks, workers and the cluster, as users see them
- `admin`: results of a worker's admin operations on a connector
- `plugins`: installed and built-in plugins
- `offset`: claims of tasks, the history of offsets
- `metrics`: metrics of tasks and processes
- `logs`: log lines, their filter, log levels

Configurations
- `config_def`: definition and parsing of configuration keys, all errors at once, size bounds;
  definitions of connectors and their keys, for forms
- `config_redaction`: redaction of secrets in configurations, and their comparison
- `topic`: topics, as a connector names and bounds them
- `pattern`: regular expressions of configurations (`penstock_values.pattern`), with our errors

Rows and columns
- `columns`: the reserved columns of a row
- `arrow_schema`: decoding and checking of schemas, semantic types, times of day
- `drift_policy`: policies for rows whose columns differ from their target; `schema_drift`: what
  they do

The data path
- `stream`: events of a task's source and sink, and the driver's commands
- `step`: one step of a transform chain
- `ticket`: the ticket of a micro-batch, and the reports of its slots
- `inspection`: inspected live rows, and previews
- `dead_letter`: the record of a dead letter
- `dead_letter_queue`: queries and replays of dead letters

Everywhere
- `errors`: the error shape, and the exceptions that carry it
- `backoff`: delays between tries and restarts
- `faults`: fault points for tests
"""
