"""The connectors to the web keep the protocol; their folder keeps the kit's result."""

import sys
from collections import defaultdict
from pathlib import Path

import pytest

from support.conformance import differences, run_kit
from support.web import Reply, WebServer

pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent.parent
JSON = {"Content-Type": "application/json"}
BIG = '[{"id": 1, "text": "' + "x" * (64 << 20) + '"}]'


class Api:
    """Keeps rows: POST adds lines to an address, GET gives a part of them; `/big` has one row."""

    def __init__(self):
        self.lines = defaultdict(list)

    def __call__(self, asked):
        lines = self.lines[asked.path]
        if asked.method == "POST":
            lines += [line for line in asked.body.decode().split("\n") if line]
            return Reply(status=204)
        if "lines" in asked.query:
            return Reply("".join(f"{line}\n" for line in lines))
        begin = int(asked.query.get("from", 0))
        if asked.path == "/big":
            return Reply("[]" if begin else BIG, headers=JSON)
        end = begin + int(asked.query.get("rows", sys.maxsize))
        return Reply("[" + ",".join(lines[begin:end]) + "]", headers=JSON)


@pytest.fixture
def api():
    server = WebServer()
    server.answer = Api()
    yield server.url
    server.close()


def test_the_connectors_conform_as_their_folder_says(api):
    told = run_kit("connectors/net/penstock_net", variables={"KIT_API": api})
    assert differences(told, HERE / "conformance.json") == []
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
