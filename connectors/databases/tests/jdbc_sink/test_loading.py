"""LOAD DATA LOCAL sends rows and nothing else, and skips or bends none of them."""

import socket
import threading

import pytest

from penstock_connector import ConnectorError
from penstock_connector.testing import RemoteError
from penstock_databases.dialect import Login
from penstock_databases.mysql.connection import MysqlConnection
from penstock_databases.url import parse_url
from support.mariadb import PASSWORD, USER

from .conftest import BOTH

TEXT = "it's \\ \t \n 🎉 \\N ' '' \\' %s"


class Liar:
    """Passes a connection on, and puts another file's name into the server's requests.

    `always`: it asks for the file whatever the statement was.
    """

    def __init__(self, port, name, *, always=False):
        self.name, self.always = name, always
        self.asked = 0
        self.sent = bytearray()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._to = port
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        try:
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                threading.Thread(target=self._up, args=(client, server), daemon=True).start()
                threading.Thread(target=self._down, args=(client, server), daemon=True).start()
        except OSError:
            return

    def _up(self, client, server):
        try:
            while data := client.recv(1 << 16):
                if self.always and b"penstock_lie" in data:
                    self.asked += 1
                    client.sendall(packet(1, b"\xfb" + self.name))
                elif self.asked and self.always:
                    self.sent += data
                else:
                    self.sent += data
                    server.sendall(data)
        except OSError:
            pass
        finally:
            client.close()
            server.close()

    def _down(self, client, server):
        try:
            while data := server.recv(1 << 16):
                if data[4:5] == b"\xfb" and data.endswith(b"penstock"):
                    self.asked += 1
                    data = packet(data[3], b"\xfb" + self.name)
                client.sendall(data)
        except OSError:
            pass

    def close(self):
        self._server.close()


def packet(number, payload):
    return len(payload).to_bytes(3, "little") + bytes([number]) + payload


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text("the secret of this machine\n")
    return path


def test_a_server_that_asks_for_another_file_gets_the_rows(my, secret):
    my.sql("CREATE TABLE t (v VARCHAR(100))")
    liar = Liar(my.server.port, str(secret).encode())
    url = my.url.replace(str(my.server.port), str(liar.port)) + "?sslMode=disable"
    with my.sink(connection_url=url) as task:
        task.write([{"v": "a row"}], dataset="t")
    liar.close()
    assert liar.asked == 1
    assert my.rows("t") == [("a row",)]
    assert b"the secret" not in liar.sent


def test_a_server_that_asks_for_a_file_in_any_other_answer_gets_none(my, secret):
    liar = Liar(my.server.port, str(secret).encode(), always=True)
    url = (
        my.url.replace(str(my.server.port), str(liar.port)) + "?sslMode=disable&socketTimeout=5000"
    )
    connection = MysqlConnection(parse_url(url), Login(USER, PASSWORD))
    with pytest.raises(ConnectorError):
        connection.execute("SELECT 'penstock_lie'")
    connection.close()
    liar.close()
    assert liar.asked == 1
    assert b"the secret" not in liar.sent


@pytest.fixture(params=[True, False], ids=["local", "insert"])
def local(request, mariadb):
    mariadb.sql(f"SET GLOBAL local_infile = {int(request.param)}")
    yield request.param
    mariadb.sql("SET GLOBAL local_infile = 1")


@BOTH
def test_rows_arrive_as_they_are_either_way(local, my):
    my.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT, b BLOB, n DECIMAL(9,2), bits BIT(4))")
    rows = [
        {"id": 1, "v": TEXT, "b": bytes(range(256)), "n": 1, "bits": 9},
        {"id": 2, "v": "", "b": b"", "n": None, "bits": None},
        {"id": 3, "v": None, "b": None, "n": -2, "bits": 0},
    ]
    with my.sink() as task:
        task.write(rows, dataset="t")
    found = my.sql("SELECT id, v, b, n, bits + 0 FROM t ORDER BY id")
    assert [dict(zip(("id", "v", "b", "n", "bits"), row, strict=True)) for row in found] == rows


def test_plain_rows_arrive_as_they_are_either_way(local, my):
    my.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    rows = [{"id": n, "v": [TEXT, None, "", "NULL", "'", "\\"][n % 6]} for n in range(600)]
    with my.sink(insert_mode="upsert", pk_mode="record_value", pk_fields="id") as task:
        task.write(rows, dataset="t")
        task.write(rows, dataset="t")
    assert my.rows("t") == [tuple(row.values()) for row in rows]


def test_statements_stay_below_what_the_server_takes(my, mariadb):
    my.sql("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    mariadb.sql("SET GLOBAL local_infile = 0; SET GLOBAL max_allowed_packet = 1048576")
    try:
        with my.sink() as task:
            rows = [{"id": n, "v": "'" * 100_000} for n in range(30)]
            task.write([*rows, {"id": 30, "v": "x" * 900_000}], dataset="t")
            with pytest.raises(RemoteError) as caught:
                task.write([{"id": 99, "v": "x" * 1_100_000}], dataset="t")
        assert caught.value.code == "sql.too_large"
    finally:
        mariadb.sql("SET GLOBAL local_infile = 1; SET GLOBAL max_allowed_packet = 16777216")
    assert my.sql("SELECT COUNT(*), SUM(LENGTH(v)) FROM t") == [(31, 3_900_000)]


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ("(id INT, v VARCHAR(9), UNIQUE (v))", "sql.constraint"),
        ("(id INT, v VARCHAR(9), CHECK (v <> 'b'))", "sql.constraint"),
        ("(id INT, v ENUM('a', 'c'))", "sql.value"),
        ("(id INT, v VARCHAR(9), FOREIGN KEY (v) REFERENCES parent (v))", "sql.constraint"),
    ],
)
def test_a_row_that_a_load_would_skip_or_bend_fails_the_transaction(local, my, table, code):
    my.sql("CREATE TABLE parent (v VARCHAR(9) PRIMARY KEY)")
    my.sql("INSERT INTO parent VALUES ('a'), ('c')")
    my.sql(f"CREATE TABLE t {table}")
    with my.sink() as task:
        task.write([{"id": 1, "v": "a"}], dataset="t")
        bad = [{"id": 2, "v": "c"}, {"id": 3, "v": "b"}, {"id": 4, "v": "b"}]
        with pytest.raises(RemoteError) as caught:
            task.write(bad, dataset="t")
    assert caught.value.code == code
    assert my.rows("t") == [(1, "a")]
