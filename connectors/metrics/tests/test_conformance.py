"""The connectors of metrics keep the protocol; their folder keeps the kit's result."""

from pathlib import Path

import pytest

from support.conformance import differences, run_kit
from support.ganglia import FakeGmond
from support.web import Reply

pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent.parent
TARGET = "".join(f'conformance_{n}{{text="ä {n}"}} {n / 4}\n' for n in range(22))


NUMBERS = {str(n): n / 4 for n in range(21)}
METRICS = "".join(f'<METRIC NAME="m{n}" VAL="{n / 4}" TYPE="double"/>' for n in range(20))
REPORT = f'<GANGLIA_XML><CLUSTER NAME="c"><HOST NAME="ä">{METRICS}</HOST></CLUSTER></GANGLIA_XML>'


def answer(asked):
    """Answer as Jolokia does to what is sent, and as a target of Prometheus does to the rest."""
    if asked.method == "POST":
        return Reply([{"status": 200, "value": {"Numbers": NUMBERS}}])
    return Reply(TARGET, headers={"Content-Type": "text/plain; version=0.0.4"})


def test_the_connectors_conform_as_their_folder_says(prometheus, web):
    web.answer = answer
    with FakeGmond(REPORT.encode()) as gmond:
        variables = {
            "KIT_PROMETHEUS": prometheus.url, "KIT_TARGET": web.url, "KIT_JOLOKIA": web.url,
            "KIT_GMOND": gmond.target,
        }  # fmt: skip
        told = run_kit("connectors/metrics/penstock_metrics", variables=variables)
    assert differences(told, HERE / "conformance.json") == []
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
