"""The offset service: how far. Every partition's offset, and the state of two-phase commits.

- `rules`    pure: who may commit what, and what a task's record becomes
- `stored`   the keys, and the stored forms of a task, an offset and a floor
- `memory`   what was read or written last, so that a commit reads nothing
- `commits`  claims and commits: one store write each
- `edits`    what people do: get, list, alter, reset
- `service`  the gRPC surface, thin

Invariant 4 is upheld here three times over. A task's record has the epoch of its last claim; an
offset has the epoch that wrote it; and a generation has a floor, below which every epoch is dead
since a person altered its offsets. All three are compared in the write itself, so what is in
memory may be stale and no harm is done: the write fails, and everything is read anew.
"""

from penstock.offset.commits import Commits
from penstock.offset.edits import ConnectorReader, Edits
from penstock.offset.rules import Commit, Prepared, TaskRecord
from penstock.offset.service import OffsetService

__all__ = [
    "Commit",
    "Commits",
    "ConnectorReader",
    "Edits",
    "OffsetService",
    "Prepared",
    "TaskRecord",
]
