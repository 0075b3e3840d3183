"""The tasks of a worker.

- `task`           a task: one run after the other; detects plugins that crash at one place
- `monitor`        watches the partitions of a connector, and requests another plan
- `supervisor`     the restart loop of tasks and monitors
- `task_run`       one run of a task, from opening to closing
- `task_offsets`   the offsets of a task, and where a run starts
- `micro_batches`  batches grouped, sized, and divided into slots; their outcomes
- `execution`      one micro-batch through Spark; schema changes
- `commit`         the order of a commit
- `commit_log`     lines about the first commit, and the first rejected rows
- `source_acks`    acknowledgements to the source
- `live_rows`      samples for users who inspect a task
- `metrics`        what a task counts and measures
"""
