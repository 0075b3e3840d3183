"""The offset service: the offset of every partition, and the state of two-phase commits.

- `rules`         pure: which epoch may commit, and the record of a task after it
- `history`       pure: an offset with its earlier versions, as one value
- `journal`       pure: a commit of many partitions that is stored as one piece
- `records`       the keys; the stored forms of tasks and of the manifest of a generation
- `view`          reads the current offsets: a version merged with journals; the cache
- `commits`       claims and commits: one fenced store write each, decided on a snapshot
- `staged_writes` writes that do not fit into one transaction: batches, chunks of journals
- `compaction`    in the background: compacts journals, deletes dead versions and orphans
- `admin`         get, list, history, alter; reset and rewind by one switch of versions
- `stop_guard`    checks that a connector is stopped before its offsets are altered
- `retention`     deletes the offsets of deleted connectors
- `service`       the gRPC service

Invariant 4 is upheld three times. The record of a task has the epoch of its last claim; an offset
has the epoch that wrote it; and a generation has a floor, the newest epoch that an alteration has
fenced. Each write compares all three. So a stale cache does no harm: the write fails, and
everything is read again.
"""

from penstock.offset.admin import BulkAdmin, OffsetAdmin
from penstock.offset.commits import Commits
from penstock.offset.compaction import Compactor
from penstock.offset.rules import Commit, PreparedTransaction, TaskRecord
from penstock.offset.service import OffsetService
from penstock.offset.stop_guard import ConnectorReader, StopGuard, TaskReader
from penstock.offset.view import OffsetView

__all__ = [
    "BulkAdmin",
    "Commit",
    "Commits",
    "Compactor",
    "ConnectorReader",
    "OffsetAdmin",
    "OffsetService",
    "OffsetView",
    "PreparedTransaction",
    "StopGuard",
    "TaskReader",
    "TaskRecord",
]
