"""Prints the rows that a ledger of the verifiable sink stands for, as JSON lines.

The rows are those of numbered.jsonl beside it: a row's number is its place there.
"""

import json
import sys
from pathlib import Path

ROWS = Path(__file__).with_name("numbered.jsonl").read_text(encoding="utf-8").splitlines()

ledger = Path(sys.argv[1])
waiting = []
for text in ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else ():
    line = json.loads(text)
    waiting.append(line)
    if not line.get("end"):
        continue
    for done in waiting:
        for first, last in done.get("sequences") or ():
            print(*ROWS[first : last + 1], sep="\n")
    waiting.clear()
