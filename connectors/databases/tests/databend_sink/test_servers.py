"""Wrong passwords, servers that are away, folders that others have; and nobody sees a secret."""

import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

from penstock_connector import RetriableError
from penstock_connector.testing import RemoteError
from penstock_databases.databend_sink import DatabendSink, DatabendSinkConfig, embedded
from penstock_databases.databend_sink.embedded import EmbeddedSession
from penstock_databases.databend_sink.http import HttpSession
from penstock_databases.databend_sink.session import open_session
from penstock_databases.databend_sink.url import parse_url
from penstock_databases.dialect import Login
from support.databend import PASSWORD, USER


def failing(server, **keys):
    with pytest.raises(RemoteError) as caught, server.task(**keys):
        pass
    return caught.value


def test_a_wrong_password_is_told_without_it(server, caplog):
    caplog.set_level(logging.DEBUG)
    error = failing(server, connection_password="s3cret/wr%ng")
    assert error.code == "sql.auth"
    told = f"{error}{error.diagnostic}{caplog.text}"
    assert "s3cret" not in told
    assert USER not in error.diagnostic.message
    assert "127.0.0.1" in error.diagnostic.message


def test_what_the_driver_says_is_told_without_the_password(server):
    target = parse_url(server.url)
    session = HttpSession(target, Login(USER, PASSWORD))
    said = f"no address: databend://{USER}:{quote(PASSWORD, safe='')}@h, nor {PASSWORD}"
    told = str(session._told(ValueError(said)))
    session.close()
    assert "no address" in told
    assert PASSWORD not in told
    assert quote(PASSWORD, safe="") not in told


def test_an_unknown_user_is_told(server):
    assert failing(server, connection_user="nobody").code == "sql.auth"


def test_a_user_that_the_driver_cannot_send_is_told(server):
    assert failing(server, connection_user="a@b").code == "databend.user"


def test_an_unknown_database_is_told(server):
    assert failing(server, connection_database="nosuch").code == "sql.no_database"


def test_a_server_that_is_away_is_tried_again_a_number_of_times(server, free_port):
    waits = []
    config = DatabendSinkConfig(
        connection_url=f"jdbc:databend://127.0.0.1:{free_port}/",
        connection_user=USER,
        connection_password=PASSWORD,
        connection_attempts=3,
        connection_backoff_ms=0.01,
    )
    with pytest.raises(RetriableError) as caught:
        open_session(config, waits.append)
    assert caught.value.code == "sql.unreachable"
    assert PASSWORD not in str(caught.value)
    assert len(waits) == 2


def test_a_server_that_is_no_databend_is_told(server):
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Page(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_error(404, "a web page")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as other:
        thread = threading.Thread(target=other.serve_forever, daemon=True)
        thread.start()
        url = f"jdbc:databend://127.0.0.1:{other.server_address[1]}/"
        error = failing(server, connection_url=url)
        other.shutdown()
    assert error.code.startswith("sql.")
    assert PASSWORD not in str(error.diagnostic)


def test_check_logs_in(server, free_port):
    from penstock_connector._config import parse_config

    def check(**keys):
        DatabendSink.check(parse_config(DatabendSinkConfig, server.config(**keys)))

    check()
    with pytest.raises(Exception, match=r"sql\.auth"):
        check(connection_password="no")
    with pytest.raises(Exception, match=r"sql\.unreachable"):
        check(connection_url=f"jdbc:databend://127.0.0.1:{free_port}/", connection_attempts="1")


@pytest.fixture
def free_port():
    from support.processes import free_ports

    return free_ports(1)[0]


# ── folders ──────────────────────────────────────────────────────────────────────────────────────


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

HOLDER = """
import sys
from penstock_databases.databend_sink.embedded import EmbeddedSession
session = EmbeddedSession(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
session.close()
"""


def test_a_folder_that_another_process_has_is_told(folder, tmp_path, monkeypatch):
    path = folder.url.removeprefix("databend+local://")
    monkeypatch.setattr(embedded, "_STARTS_WITHIN", 1.0)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    with holder:
        assert holder.stdout.readline() == "held\n"
        error = failing(folder, connection_attempts="1")
        assert error.code == "databend.in_use"
        holder.communicate("")
    with folder.task() as task:
        task.write([{"id": 1}], dataset="t")


def test_the_folder_of_a_killed_process_is_free(folder):
    path = folder.url.removeprefix("databend+local://")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
    ) as holder:  # fmt: skip
        assert holder.stdout.readline() == "held\n"
        holder.kill()
    with folder.task() as task:
        task.write([{"id": 1}], dataset="t")


def test_sessions_of_a_folder_share_one_engine(tmp_path):
    one, other = EmbeddedSession(f"{tmp_path}/a"), EmbeddedSession(f"{tmp_path}/./a")
    third = EmbeddedSession(f"{tmp_path}/b")
    try:
        one.execute('CREATE TABLE "t" ("id" INT)')
        assert other.query('SELECT * FROM "t"') == []
        assert len(embedded._engines) == 2
        one.close()
        one.close()
        assert other.query("SELECT 1") == [("1",)]
    finally:
        for session in (one, other, third):
            session.close()
    assert not embedded._engines


def test_a_transaction_keeps_other_tasks_out(tmp_path):
    one, other = EmbeddedSession(f"{tmp_path}/a"), EmbeddedSession(f"{tmp_path}/a")
    seen = []
    try:
        one.execute('CREATE TABLE "t" ("id" INT)')
        with one.alone():
            one.execute("BEGIN")
            one.execute('INSERT INTO "t" VALUES (1)')
            thread = threading.Thread(
                target=lambda: seen.extend(other.query('SELECT count(*) FROM "t"'))
            )
            thread.start()
            one.execute("ROLLBACK")
        thread.join(60)
        assert seen == [("0",)]
    finally:
        one.close()
        other.close()


def test_an_engine_that_died_is_started_again(folder):
    with folder.task() as task:
        task.write([{"id": 1}], dataset="t")
        (engine,) = embedded._engines.values()
        engine._process._process.kill()
        task.write([{"id": 2}], dataset="t")
        task.close()
    assert folder.rows("t", '"id"') == [(1,), (2,)]


def test_an_engine_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "_STATEMENT_WITHIN", 0.5)
    session = EmbeddedSession(f"{tmp_path}/a")
    try:
        with pytest.raises(RetriableError, match="no answer within"):
            session.query("SELECT count(*) FROM numbers(1000000000000) WHERE sqrt(number) > 5")
        monkeypatch.setattr(embedded, "_STATEMENT_WITHIN", 20)
        assert session.query("SELECT 1") == [("1",)]
    finally:
        session.close()


def test_the_engine_gets_no_secret_and_no_setting_of_our_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SECRET", "s3cret")
    monkeypatch.setenv("DATABEND_TENANT_ID", "another")
    session = EmbeddedSession(f"{tmp_path}/a")
    try:
        (engine,) = embedded._engines.values()
        environ = Path(f"/proc/{engine._process._process.pid}/environ").read_text()
        names = {part.partition("=")[0] for part in environ.split("\0") if part}
        assert names <= {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR", "DATABEND_DATA_PATH",
                         "LOG_FILE_DIR", "LC_CTYPE"}  # fmt: skip
    finally:
        session.close()


def test_no_process_is_left_behind(tmp_path):
    session = EmbeddedSession(f"{tmp_path}/a")
    (engine,) = embedded._engines.values()
    pid = engine._process._process.pid
    session.close()
    assert not Path(f"/proc/{pid}").exists()
    assert not re.search("databend", " ".join(thread.name for thread in threading.enumerate()))


@pytest.mark.parametrize("path", ["/proc/nosuch/x", "/dev/null/x"])
def test_a_folder_that_cannot_be_made_is_told(folder, path):
    error = failing(folder, connection_url=f"databend+local://{path}")
    assert error.code == "databend.folder"
