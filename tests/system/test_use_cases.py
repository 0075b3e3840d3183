"""The use cases of the documentation: each page is typed as it stands, and prints what it says.

The servers are private ones, so ports are replaced; passwords are variables on the pages, too. Most
pages run on the plain engine, because Spark makes no difference to what they print; the cluster has
Spark.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest

from penstock.cluster.local import PORTS, Ports, write_json
from support import maven
from support.checkout import ROOT
from support.kafka import VERSION, KafkaServer
from support.mariadb import PASSWORD, MariadbServer
from support.page import Typist, appears, read_page
from support.postgresql import PostgresqlServer, postgresql_programs
from support.processes import PLAIN, TESTS, free_ports

pytestmark = pytest.mark.timeout(600)

PAGES: Final = ROOT / "deploy" / "docs" / "pages" / "use-cases"

FROM_MARIADB: Final = ("mysql-to-postgresql", "changes-to-database", "whole-database")
TO_POSTGRESQL: Final = ("files-to-tables",)
WITH_KAFKA: Final = ("kafka-to-table",)
WITHOUT_SERVERS: Final = ("api-to-table", "dead-letters")
ON_A_CLUSTER: Final = ("cluster",)

KAFKAS_TOOLS: Final = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
}
CHECKOUT: Final = {".venv", ".git", "node_modules"}
"""What the folder of a page does not have of the root."""

SHOWS_ONE: Final = """\
```bash title="First terminal"
echo one
```
```text title="First terminal"
"""

Type = Callable[..., None]


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariadbServer]:
    """The server of all pages with MySQL or MariaDB."""
    with MariadbServer() as server:
        yield server


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    """The server of all pages with PostgreSQL."""
    with PostgresqlServer("wal_level=logical") as server:
        yield server


@pytest.fixture
def warehouse(postgresql: PostgresqlServer) -> PostgresqlServer:
    """The server with an empty database `warehouse`. One with a slot cannot be dropped."""
    postgresql.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    postgresql.sql("DROP DATABASE IF EXISTS warehouse WITH (FORCE)")
    postgresql.sql("CREATE DATABASE warehouse")
    return postgresql


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command `penstock` whose worker has no Spark."""
    return programs(
        tmp_path_factory.mktemp("plain"),
        {"penstock": f"PYTHONPATH={TESTS} exec {sys.executable} -m {PLAIN}"},
    )


@pytest.fixture(scope="module")
def kafkas_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the commands of Kafka's distribution that a page types."""
    jars = maven.jars(f"kafka-broker/{VERSION}")
    return programs(
        tmp_path_factory.mktemp("tools"),
        {name: f"exec java -Xmx64m -cp '{jars}/*' {of}" for name, of in KAFKAS_TOOLS.items()},
    )


def programs(folder: Path, commands: Mapping[str, str]) -> Path:
    """Make programs of shell commands; returns their folder."""
    for name, command in commands.items():
        program = folder / name
        program.write_text(f'#!/bin/sh\n{command} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return folder


@pytest.fixture
def type_page(plain: Path, tmp_path: Path) -> Type:
    """Type a page in a new folder. `ports`: of the page, and ours; `path`: folders of programs."""

    def type_it(name: str, ports: Mapping[int, int], *path: Path, **variables: str) -> None:
        replaced = {str(theirs): str(ours) for theirs, ours in ports.items()}
        variables = {"PATH": ":".join(map(str, (plain, *path))), **variables}
        with Typist(tmp_path / "page", replaced, variables) as typist:
            typist.type(read_page(PAGES / f"{name}.md"))

    return type_it


@pytest.mark.parametrize("name", FROM_MARIADB)
def test_a_page_with_two_databases(
    name: str, mariadb: MariadbServer, warehouse: PostgresqlServer, type_page: Type
) -> None:
    mariadb.sql("DROP DATABASE IF EXISTS shop; DROP DATABASE IF EXISTS copy")
    type_page(
        name,
        {3306: mariadb.port, 5432: warehouse.port},
        postgresql_programs(),
        SHOP_PASSWORD=PASSWORD,
        WAREHOUSE_PASSWORD="of no use here",
    )


@pytest.mark.parametrize("name", TO_POSTGRESQL)
def test_a_page_with_postgresql(name: str, warehouse: PostgresqlServer, type_page: Type) -> None:
    type_page(
        name, {5432: warehouse.port}, postgresql_programs(), WAREHOUSE_PASSWORD="of no use here"
    )


@pytest.mark.parametrize("name", WITH_KAFKA)
def test_a_page_with_kafka(
    name: str, warehouse: PostgresqlServer, kafkas_tools: Path, tmp_path: Path, type_page: Type
) -> None:
    (tmp_path / "kafka").mkdir()
    with KafkaServer(tmp_path / "kafka") as kafka:
        type_page(
            name,
            {5432: warehouse.port, 9092: int(kafka.bootstrap.rpartition(":")[2])},
            *(postgresql_programs(), kafkas_tools),
            WAREHOUSE_PASSWORD="of no use here",
        )


@pytest.mark.parametrize("name", WITHOUT_SERVERS)
def test_a_page_without_servers(name: str, type_page: Type) -> None:
    api, rest = free_ports(2)
    server = f"http://127.0.0.1:{rest}"
    type_page(name, {8000: api, 8083: rest}, PENSTOCK_SERVER=server)


@pytest.mark.parametrize("name", ON_A_CLUSTER)
def test_a_page_with_a_cluster(name: str, tmp_path: Path) -> None:
    """It is typed in a folder that looks like the root. Its ports are those of this lane."""
    folder, ports = tmp_path / "page", Ports(*free_ports(3))
    (folder / "cluster").mkdir(parents=True)
    write_json(folder / "cluster" / f"{PORTS}.json", asdict(ports))
    for entry in ROOT.iterdir():
        if entry.name not in CHECKOUT:
            (folder / entry.name).symlink_to(entry)
    variables = {
        "PENSTOCK_SERVER": f"http://127.0.0.1:{ports.rest}",
        "PENSTOCK_VENV": sys.prefix,
        "PENSTOCK_SPARK_DRIVER_MEMORY": "512m",
        "PENSTOCK_SPARK_MASTER": "local[1,1]",
    }
    stop = [sys.executable, "-m", "penstock.cli", "cluster", "stop", "--dir"]
    with (
        Typist(folder, {}, variables) as typist,
        # it outlives its command: so a process waits for our end, and stops it then
        subprocess.Popen(
            ["sh", "-c", 'cat; exec "$@"', "sh", *stop, str(folder / "cluster")],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ),
    ):
        typist.type(read_page(PAGES / f"{name}.md"))


def test_every_page_is_typed() -> None:
    typed = {*FROM_MARIADB, *TO_POSTGRESQL, *WITH_KAFKA, *WITHOUT_SERVERS, *ON_A_CLUSTER}
    assert {page.stem for page in PAGES.glob("*.md")} == typed | {"index"}
    assert read_page(PAGES / "index.md") == []


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("```bash\nfalse\n```\n", "ended with 1"),
        ("```bash\necho two\n```\n```text\none\n```\n", "printed"),
        ('```bash title="First terminal"\nsleep 9\n```\n', "not free"),
        ('```bash title="First terminal"\nsleep 9\n```\n```bash\ntrue\n```\n', "not free"),
        (f"{SHOWS_ONE}two\n```\n", "shows"),
        ("```bash other\ntrue\n```\n", "not understood"),
        ("```yaml\na: 1\n```\n", "neither"),
    ],
)
def test_a_page_that_is_wrong_goes_red(block: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"# A page\n\n{block}", encoding="utf-8")
    with pytest.raises(AssertionError, match=words), Typist(tmp_path / "x", {}, {}) as typist:
        typist.type(read_page(tmp_path / "page.md"))


def test_what_appears_is_compared_line_by_line() -> None:
    printed = "a  b\n\n x: 0 rows read, 0 written, 0 rows/s, 10 s\nc in 12 s\nd\ne\n"
    assert appears("a b\nc in … s\n…\ne", printed)
    assert appears("…\nd", printed)
    assert not appears("a\nc in … s", printed)
    assert not appears("c in 1 s", printed)
    assert not appears("d\nc in … s", printed)
