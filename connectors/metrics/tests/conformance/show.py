"""Prints the samples of a trial as the rows that they were: show.py ADDRESS TRIAL."""

import json
import sys
import urllib.parse
import urllib.request

SECONDS = 20

address, trial = sys.argv[1:]
query = urllib.parse.urlencode({"query": f'{{trial="{trial}"}}[10y]'})
with urllib.request.urlopen(f"{address}/api/v1/query?{query}", timeout=SECONDS) as answer:
    found = json.load(answer)["data"]["result"]
for one in found:
    labels = one["metric"]
    for at, value in one["values"]:
        row = {"name": labels["__name__"], "host": labels["host"], "value": float(value)}
        print(json.dumps({**row, "timestamp": round(at * 1000)}))
