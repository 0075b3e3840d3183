"""What the kit does with the API of the test.

api.py add ADDRESS FILE    # gives it lines
api.py show ADDRESS        # prints those that it has
"""

import sys
import urllib.request
from pathlib import Path

SECONDS = 20

command, address, *rest = sys.argv[1:]
if command == "add":
    given = Path(rest[0]).read_bytes()
    urllib.request.urlopen(urllib.request.Request(address, given), timeout=SECONDS).close()
else:
    with urllib.request.urlopen(f"{address}?lines", timeout=SECONDS) as answer:
        sys.stdout.buffer.write(answer.read())
