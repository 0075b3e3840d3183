"""What the kit does with the Databend of the tests.

databend.py PORT SQL               # prints the rows as JSON lines
databend.py PORT DATABASE TABLE    # the same of a table; nothing where there is none
"""

import base64
import datetime as dt
import json
import sys
import urllib.request

import pyarrow as pa


def read(port, sql):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/test/read", sql.encode())
    with urllib.request.urlopen(request, timeout=50) as answer:
        return pa.ipc.open_stream(answer.read()).read_all()


def plain(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    return str(value)


port, sql, *table = sys.argv[1:]
if table:
    named = f"database = '{sql}' AND name = '{table[0]}'"
    (count,) = read(port, f"SELECT count(*) FROM system.tables WHERE {named}").to_pylist()
    sql = f"SELECT * FROM {sql}.{table[0]}" if [*count.values()] != [0] else "SELECT 1 WHERE false"
for row in read(port, sql).to_pylist():
    print(json.dumps(row, default=plain))
