"""What the kit does with the ClickHouse of the tests.

clickhouse.py PORT PASSWORD SQL               # runs it
clickhouse.py PORT PASSWORD DATABASE TABLE    # prints its rows as JSON lines; none where it is not
"""

import json
import sys
import urllib.request


def ask(sql):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/",
        sql.encode(),
        {"X-ClickHouse-User": "penstock", "X-ClickHouse-Key": password},
    )
    with urllib.request.urlopen(request, timeout=50) as answer:
        return answer.read()


port, password, sql, *table = sys.argv[1:]
if not table:
    ask(sql)
elif ask(f"EXISTS TABLE {sql}.{table[0]}").strip() == b"1":
    described = ask(f"DESCRIBE TABLE {sql}.{table[0]} FORMAT JSONCompact")
    names = [row[0] for row in json.loads(described)["data"]]
    columns = ["base64Encode(raw) AS raw" if name == "raw" else f"`{name}`" for name in names]
    rows = ask(
        f"SELECT {', '.join(columns)} FROM {sql}.{table[0]} FORMAT JSONEachRow SETTINGS "
        "output_format_json_quote_denormals = 1, output_format_json_quote_decimals = 1"
    )
    sys.stdout.buffer.write(rows)
