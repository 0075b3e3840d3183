"""Helpers for tests of connectors, of pipelines and of Penstock itself.

- `ledger`           sets of sequence numbers, and the ledger that the verifiable sink writes
- `delivery`         gaps, duplicates, reordering, stale epochs of a ledger; pure
- `linearizability`  whether some order of concurrent calls explains their answers; pure
- `clock`            a clock that moves only when a test advances it
- `process_tree`     the processes of this machine by /proc; their memory and CPU
- `processes`        runs a penstock process in a folder of its own: wait, kill, find leftovers

No helper sleeps for a fixed time: every wait has a condition, and a deadline whose error names what
was waited for. `process_tree` and `processes` read /proc, so they need Linux.
"""

from penstock_kit.testing.clock import FakeClock
from penstock_kit.testing.delivery import Defect, Report, check_delivery, check_delivery_so_far
from penstock_kit.testing.ledger import Entry, Ledger, LedgerError, Spans, read_ledger
from penstock_kit.testing.linearizability import LOST, Call, find_unexplained
from penstock_kit.testing.process_tree import Usage, usage_of
from penstock_kit.testing.processes import Leftovers, PenstockProcess, find_leftovers, wait_until

__all__ = [
    "LOST",
    "Call",
    "Defect",
    "Entry",
    "FakeClock",
    "Ledger",
    "LedgerError",
    "Leftovers",
    "PenstockProcess",
    "Report",
    "Spans",
    "Usage",
    "check_delivery",
    "check_delivery_so_far",
    "find_leftovers",
    "find_unexplained",
    "read_ledger",
    "usage_of",
    "wait_until",
]
