"""The connectors to databases keep the protocol; their folder keeps the kit's result."""

from pathlib import Path

import pytest

from support.conformance import differences, run_kit
from support.databend import PASSWORD, DatabendServer
from support.mariadb import MariadbServer
from support.postgresql import PostgresqlServer

pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent.parent
_LOGICAL = ("wal_level=logical", "fsync=off", "max_replication_slots=40", "max_wal_senders=20")


@pytest.fixture
def servers():
    with (
        MariadbServer() as mariadb,
        PostgresqlServer(*_LOGICAL) as postgresql,
        DatabendServer() as databend,
    ):
        yield {
            "KIT_DATABEND_PORT": str(databend.port),
            "KIT_DATABEND_PASSWORD": PASSWORD,
            "KIT_MARIADB_PORT": str(mariadb.port),
            "KIT_POSTGRESQL_PORT": str(postgresql.port),
        }


def test_the_connectors_conform_as_their_folder_says(servers):
    told = run_kit("connectors/databases/penstock_databases", variables=servers)
    assert differences(told, HERE / "conformance.json") == []
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
