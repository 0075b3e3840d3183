"""The connectors of messaging systems keep the protocol; their folder keeps the kit's result."""

from pathlib import Path

import pytest

from support.conformance import differences, run_kit

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.timed("each case has a deadline: beside other servers, one may be late"),
]

HERE = Path(__file__).parent.parent


def test_the_connectors_conform_as_their_folder_says(mosquitto, nats, redis_server):
    ports = {"MQTT": mosquitto.port, "NATS": nats.port, "REDIS": redis_server.port}
    told = run_kit(
        "connectors/messaging/penstock_messaging",
        variables={f"KIT_{name}": str(port) for name, port in ports.items()},
    )
    assert differences(told, HERE / "conformance.json") == []
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
