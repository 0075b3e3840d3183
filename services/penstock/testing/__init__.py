"""The public test kit: what a connector, a pipeline or Penstock itself is tested with.

- `spans`      sets of sequence numbers, kept as ranges
- `ledger`     what the verifiable sink wrote down: one line for each committed batch
- `checker`    pure: gaps, duplicates, reorder, stale epochs, rows in two places or in none
- `linearizable`  pure: is a history of concurrent calls explained by some order of them
- `clock`      a clock that moves only when told
- `procfs`     the processes of this machine, as /proc tells them
- `processes`  starts a penstock process in a folder of its own, waits, kills, counts what is left
- `rss`        memory and CPU of a process tree, by kind of process

Nothing here sleeps for luck: every wait is for a condition and has a deadline that names what was
waited for. The product never imports this room. It reads /proc, so `procfs` and the two after it
need Linux.
"""

from penstock.testing.checker import Defect, Report, check, check_so_far
from penstock.testing.clock import FakeClock
from penstock.testing.ledger import Entry, Ledger, LedgerError, read_ledger
from penstock.testing.linearizable import LOST, Call, unexplained
from penstock.testing.processes import Census, PenstockProcess, census, wait_until
from penstock.testing.rss import Usage, usage_of
from penstock.testing.spans import Spans

__all__ = [
    "LOST",
    "Call",
    "Census",
    "Defect",
    "Entry",
    "FakeClock",
    "Ledger",
    "LedgerError",
    "PenstockProcess",
    "Report",
    "Spans",
    "Usage",
    "census",
    "check",
    "check_so_far",
    "read_ledger",
    "unexplained",
    "usage_of",
    "wait_until",
]
