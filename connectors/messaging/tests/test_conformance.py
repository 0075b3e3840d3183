"""The connectors of messaging systems keep the protocol; their folder keeps the kit's result."""

from pathlib import Path

import pytest

from support.conformance import differences, run_kit

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.timed("each case has a deadline: beside other servers, one may be late"),
]

HERE = Path(__file__).parent.parent


def test_the_connectors_conform_as_their_folder_says(mosquitto, redis_server):
    told = run_kit(
        "connectors/messaging/penstock_messaging",
        variables={"KIT_MQTT": str(mosquitto.port), "KIT_REDIS": str(redis_server.port)},
    )
    assert differences(told, HERE / "conformance.json") == []
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
