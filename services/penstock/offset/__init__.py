"""The offset service: how far. Every partition's offset, and the state of two-phase commits.

- `rules`     pure: who may commit what, and what a task's record becomes
- `history`   pure: an offset with those before it, as one value
- `manifest`  pure: the record of a generation: floor, line, journals
- `journal`   pure: a commit of many partitions that is stored as one piece
- `stored`    the keys, and the stored form of a task
- `cache`     what was read or written last, so that a commit reads nothing
- `view`      reads what counts: a line with the journals over it
- `snapshot`  what a decision about a commit stands on
- `commits`   claims and commits: one fenced store write each
- `staged_writes`  writes journals
- `compaction`  folds journals, sweeps dead lines: in the background
- `edits`     what people do: get, list, history, alter
- `bulk`      reset and rewind: every offset at once, by one flip
- `owner`     asks others whether a connector is stopped
- `service`   the gRPC surface, thin

Invariant 4 is upheld here three times over. A task's record has the epoch of its last claim; an
offset has the epoch that wrote it; and a generation has a floor, below which every epoch is dead
since a person altered its offsets. All three are compared in the write itself, so what is in
memory may be stale and no harm is done: the write fails, and everything is read anew.
"""

from penstock.offset.bulk import Bulk
from penstock.offset.commits import Commits
from penstock.offset.compaction import Folder
from penstock.offset.edits import Edits
from penstock.offset.owner import ConnectorReader, Owner, TaskReader
from penstock.offset.rules import Commit, Prepared, TaskRecord
from penstock.offset.service import OffsetService
from penstock.offset.view import View

__all__ = [
    "Bulk",
    "Commit",
    "Commits",
    "ConnectorReader",
    "Edits",
    "Folder",
    "OffsetService",
    "Owner",
    "Prepared",
    "TaskReader",
    "TaskRecord",
    "View",
]
