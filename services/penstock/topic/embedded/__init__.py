"""Embedded topics: a topic is a Delta table that anyone can open. README.md beside the room has its
layout.

- `topics`       all of them, in one folder (`penstock.topic_files.folder`): start here
- `names`        a topic's name as a folder's name
- `table_state`  what a topic was made with, and what its table is at a version: files by partition,
  columns, transactions
- `log`          versions and their lines: read on one by one, put as the very next one
- `table`        one topic: made, appended to exactly once; its columns follow its rows
- `writer`       the write end of a task: prepare, commit
- `reader`       the read end of a task: tails partitions; `position` says where
- `row_slices`   which rows become a batch, and single rows by their offsets
- `wakeups`      readers sleep until something was committed: `folder_wakeups`, `store_wakeups`
- `upkeep`       what is due, off the commit path: retention, `compaction`, `sweeping`
- `threads`      where all of this blocks
"""
