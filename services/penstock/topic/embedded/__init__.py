"""Embedded topics: a topic is a Delta table that anyone can open. README.md beside the room has its
layout.

- `names`    a topic's name as a folder's name
- `log`      what the table's log says: files by partition, schema, transactions; read on
incrementally
- `table`    one topic: created, evolved, appended to exactly once
- `writer`   the write end of a task: prepare, commit
- `reader`   the read end of a task: tails partitions
- `wakeups`  readers sleep until something was committed
- `upkeep`   checkpoints, compaction, retention, orphans; off the commit path
- `topics`   all of them, in one folder
"""

from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic.embedded.upkeep import Retention

__all__ = ["EmbeddedTopics", "Retention"]
