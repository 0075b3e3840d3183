"""The connectors to analytical databases keep the protocol; their folder keeps the kit's result."""

from pathlib import Path

import pytest

from support.clickhouse import PASSWORD, ClickHouseServer
from support.conformance import differences, run_kit

pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent.parent


@pytest.fixture
def servers():
    with ClickHouseServer() as clickhouse:
        yield {"KIT_CLICKHOUSE_PORT": str(clickhouse.port), "KIT_CLICKHOUSE_PASSWORD": PASSWORD}


def test_the_connectors_conform_as_their_folder_says(servers):
    told = run_kit("connectors/analytics/penstock_analytics", variables=servers)
    assert differences(told, HERE / "conformance.json") == []
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
