"""Embedded topics: a topic is a Delta table that anyone can open. README.md beside the room has its
layout.

- `topics`       all of them, in one folder (`penstock.topic_files.folder`): start here
- `spec`         what a topic was made with
- `names`        a topic's name as a folder's name
- `state`        what a table is at a version: files by partition, columns, transactions
- `log`          versions: read on one by one, put as the very next one
- `actions`      the lines of a version
- `table`        one topic: made, evolved, appended to exactly once
- `evolution`    its columns follow its rows
- `writer`       the write end of a task: prepare, commit; `prepared` is what lies in between
- `reader`       the read end of a task: tails partitions; `position` says where, `slices` how much
- `rows`         single rows, by their offsets
- `wakeups`      readers sleep until something was committed: `watching` folders, or `polling`
- `maintenance`  what is due, off the commit path: `compaction`, `retention`, `sweeping`
- `threads`      where all of this blocks
"""
