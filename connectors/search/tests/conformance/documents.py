"""Documents of the kit.

documents.py make URL INDEX    # makes an index
documents.py show URL INDEX    # prints its documents, in the order of their ids
"""

import json
import sys
import urllib.request
from decimal import Decimal

SECONDS = 30
FIELDS = {"share": {"type": "double"}, "amount": {"type": "double"}}


def ask(url, method, body=None):
    """Return the JSON of an answer, with decimals as they are written."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return json.loads(answer.read(), parse_float=Decimal)


def plain(document):
    """Return a document as the kit writes rows: decimals are texts, and floats are numbers."""
    found = {n: float(v) if isinstance(v, Decimal) else v for n, v in document.items()}
    if document.get("amount") is not None:
        found["amount"] = str(document["amount"])
    return found


command, url, index = sys.argv[1:]
if command == "make":
    ask(f"{url}/{index}", "PUT", json.dumps({"mappings": {"properties": FIELDS}}).encode())
else:
    ask(f"{url}/{index}/_refresh", "POST")
    hits = ask(f"{url}/{index}/_search", "POST", b'{"size": 10000}')["hits"]["hits"]
    for document in sorted((hit["_source"] for hit in hits), key=lambda one: one["id"]):
        print(json.dumps(plain(document), ensure_ascii=False))
