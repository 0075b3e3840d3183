"""The worker service: it runs tasks, and answers what only a machine with the plugins can.

A task is one loop: **read end → transform chain → write end → commit offsets**. Its driver, here,
handles control only; rows go from end to end inside a Spark job and never pass through this
process.

- `ports`      what a task needs of its two ends and of the engine
- `settings`   the framework's own keys of a connector
- `batching`   pure: which announced batches make the next micro-batch, and when
- `pace`       pure: how many rows it may have, so that a slow sink commits often
- `slots`      pure: how a micro-batch is divided among Spark's slots
- `execution`  one micro-batch through the engine, with bounded retries
- `commit`     the order of a commit: sink durable → offset durable → source told
- `run`        one life of a task, from opening its ends to closing them
- `task`       a task over its lives: restarts with back-off, status
- `tasks`      all tasks of this worker
- `ends`       which ends a connector's kind has
- `planning`   validation, and splitting a connector into tasks
- `service`    the gRPC surface, thin
"""
