"""The words of Penstock as values and pure rules: no I/O, no gRPC, no Spark.

- `errors`: the one error shape, and the exceptions that carry it
- `pattern`: regular expressions of configurations, matched within a time
- `exact`: decimals as a column has them, or not at all
- `identity`: partition ids, canonical JSON, generations
- `columns`: the reserved columns of a row
- `connector`: connectors, task plans, target and task states
- `status`: connectors, tasks and workers as people see them
- `metrics`: what is measured of a task and of a process
- `stream`: what the two ends of a task tell the driver, and what it answers
- `ticket`: what one micro-batch is told to do, and what it reports back
"""
