"""The tasks of a worker.

- `supervisor`     restarts tasks and monitors; detects crash loops
- `task_run`       one run of a task, from opening to closing
- `task_offsets`   the offsets of a task, and where a run starts
- `micro_batches`  batches grouped, sized, and divided into slots
- `execution`      one micro-batch through Spark; schema changes
- `commit`         the order of a commit
- `source_acks`    acknowledgements to the source
- `live_rows`      samples for users who inspect a task
- `metrics`        what a task counts and measures
"""
