"""Documents of the kit: `show URL INDEX` prints them, in the order of their ids."""

import json
import sys
import urllib.error
import urllib.request


def ask(url, method="GET", body=None):
    """Return the JSON of an answer; None where there is no such thing."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read(), parse_float=str)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def main(_verb, url, index):
    """Print the documents of an index."""
    if ask(f"{url}/{index}/_refresh", "POST") is None:
        return
    found = ask(f"{url}/{index}/_search", "POST", b'{"size": 10000}')["hits"]["hits"]
    for document in sorted((hit["_source"] for hit in found), key=lambda one: one["id"]):
        print(json.dumps(document, ensure_ascii=False))


main(*sys.argv[1:])
