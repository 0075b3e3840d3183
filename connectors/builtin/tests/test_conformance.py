"""The connectors that ship keep the protocol; their folder keeps the kit's result."""

from pathlib import Path

import pytest

from support.conformance import differences, run_kit
from support.sftp import PASSWORD, Server

pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent.parent


@pytest.fixture
def variables(tmp_path):
    """An SFTP server, as the declaration names it."""
    server = Server(tmp_path)
    server.start()
    yield {
        "KIT_SFTP_PORT": str(server.port),
        "KIT_SFTP_KEY": server.public,
        "KIT_SFTP_PASSWORD": PASSWORD,
        "KIT_SFTP_ROOT": str(tmp_path),
    }
    server.end()


def test_the_connectors_conform_as_their_folder_says(variables):
    """penstock plugin test connectors/builtin/penstock_builtin"""
    told = run_kit("connectors/builtin/penstock_builtin", variables=variables)
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
    assert differences(told, HERE / "conformance.json") == []
