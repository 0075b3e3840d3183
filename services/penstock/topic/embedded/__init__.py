"""Embedded topics: each is a Delta table that other tools can open. README.md of `topic` describes
its layout.

- `topics`        `EmbeddedTopics`, all of them in one folder: start here
- `topic_reader`  the source reader of a task: follows partitions, announces batches
- `topic_writer`  the sink writer of a task: prepare, commit
- `topic_table`   one topic's table: created, evolved, and committed to exactly once
- `table_state`   the state of a table at a version: files by partition, columns, transactions
- `delta_log`     reads versions and writes the next one
- `row_ranges`    the rows of a batch, and lookups of single rows by offset
- `wakeups`       wakes readers when something may have been committed
- `upkeep`        retention, compaction, checkpoints, deletion of unused files
"""
