"""The connectors to ActiveMQ keep the protocol; their folder keeps the kit's result."""

from pathlib import Path

import pytest

from support.conformance import differences, run_kit

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.timed("each case has a deadline: beside other servers, one was late once"),
]

HERE = Path(__file__).parent.parent


def test_the_connectors_conform_as_their_folder_says(artemis):
    told = run_kit("connectors/amqp/penstock_amqp", variables={"KIT_ACTIVEMQ": artemis.url})
    assert differences(told, HERE / "conformance.json") == []
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
