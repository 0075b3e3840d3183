"""Servers that are not what they should be: logins, TLS, proxies, redirects, answers, old ones."""

import socket

import pytest

from penstock_analytics.clickhouse_sink import ClickHouseSink, ClickHouseSinkConfig
from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError
from penstock_connector._config import parse_config, read_config
from penstock_connector.testing import RemoteError
from support.certificates import Authority
from support.clickhouse import ClickHouseServer
from support.clickhouse_old import OldClickHouse
from support.proxy import ProxyServer

QUICK = {"connection.attempts": "1", "max.retries": "0"}


def check(place, **keys):
    ClickHouseSink.check(parse_config(ClickHouseSinkConfig, place.config(**QUICK, **keys)))


def test_a_check_says_nothing_where_all_is_well(place):
    check(place)


def test_a_wrong_password_is_told_and_not_shown(place):
    with pytest.raises(AuthError, match=r"clickhouse\.auth.*\[516\]") as caught:
        check(place, password="sesame")
    assert "sesame" not in str(caught.value)


def test_a_password_that_expires_ends_the_task_by_name(place):
    with place.task() as task:
        task.write([{"id": 1}], dataset="t")
        place.server.expire_password()
        with pytest.raises(RemoteError, match=r"clickhouse\.auth"):
            task.write([{"id": 2}], dataset="t")
    place.server.clear()
    with place.task(epoch=2) as task:
        task.write([{"id": 2}], dataset="t")
        task.close()
    assert place.rows("t", "id") == [(1,), (2,)]


def test_a_database_that_is_not_there_is_told(place):
    with pytest.raises(ConfigError, match=r"clickhouse\.no_database"):
        check(place, database="nowhere")


def test_a_redirect_is_not_followed(place):
    heard = socket.create_server(("127.0.0.1", 0))
    heard.settimeout(0.2)
    place.server.fault(
        "SELECT version", "before", f"lead http://127.0.0.1:{heard.getsockname()[1]}/"
    )
    with pytest.raises(ConfigError, match=r"clickhouse\.redirect"):
        check(place)
    with pytest.raises(TimeoutError):
        heard.accept()
    heard.close()


def test_an_answer_that_is_no_json_is_told(place):
    place.server.fault("SELECT version", "before", "page")
    with pytest.raises(RetriableError, match=r"clickhouse\.answer.*hotel.*8123"):
        check(place)


def test_a_setting_that_is_unknown_is_told(place):
    with pytest.raises(ConfigError, match=r"clickhouse\.setting"):
        check(place, clickhouseSettings="no_such_setting=1")


def test_settings_are_in_force(place):
    with place.task(clickhouseSettings="max_partitions_per_insert_block=1") as task:
        place.sql(
            "CREATE TABLE {d}.t (id Int64) ENGINE MergeTree ORDER BY id PARTITION BY id "
            "SETTINGS non_replicated_deduplication_window = 10"
        )
        with pytest.raises(RemoteError, match=r"\[252\].*partitions"):
            task.write([{"id": 1}, {"id": 2}], dataset="t")


def test_a_server_that_never_answers_has_a_deadline(place):
    silent = socket.create_server(("127.0.0.1", 0))
    with pytest.raises(RetriableError, match=r"clickhouse\.unreachable"):
        check(place, port=str(silent.getsockname()[1]), timeoutSeconds="1")
    silent.close()


@pytest.mark.parametrize("key", ["hostname", "ssl.ca.file", "proxyHost"])
def test_what_is_out_of_reach_is_refused(place, key):
    keys = {"hostname": "near", "ssl": "true", "ssl.ca.file": "/in/ca.pem", "proxyType": "http",
            "proxyHost": "near", "proxyPort": "1"}  # fmt: skip
    reach = {"reach.hosts": "near", "reach.folders": "/in"}
    assert read_config(ClickHouseSinkConfig, keys | reach)[0] is not None
    _, (error,) = read_config(ClickHouseSinkConfig, keys | reach | {key: "/far"})
    assert (error.config_path, error.code.split(".")[0]) == (key, "reach")


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def secured(authority):
    with ClickHouseServer(*authority.sign("clickhouse.test")) as server:
        yield server


def tls(place, secured, authority, **keys):
    given = {"port": str(secured.port), "ssl": "true", "ssl.ca.file": str(authority.ca),
             "ssl_socket_sni": "clickhouse.test", "database": "default"}  # fmt: skip
    return place.config(**QUICK) | given | keys


def test_rows_go_over_tls_to_the_server_of_that_name(place, secured, authority):
    config = tls(place, secured, authority)
    ClickHouseSink.check(parse_config(ClickHouseSinkConfig, config))


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"ssl_socket_sni": ""}, "clickhouse.tls"),
        ({"ssl.ca.file": ""}, "clickhouse.tls"),
        ({"ssl.ca.file": "/nowhere.pem"}, "clickhouse.ca_file"),
        ({"ssl": "false", "ssl.ca.file": "", "ssl_socket_sni": ""}, "clickhouse.unreachable"),
    ],
)
def test_a_server_that_cannot_be_trusted_is_told(place, secured, authority, keys, code):
    config = parse_config(ClickHouseSinkConfig, tls(place, secured, authority, **keys))
    with pytest.raises(ConnectorError) as caught:
        ClickHouseSink.check(config)
    assert caught.value.code == code


# ── proxies ──────────────────────────────────────────────────────────────────────────────────────


def test_requests_go_by_a_proxy(place):
    proxy = ProxyServer()
    try:
        check(place, proxyType="http", proxyHost="localhost", proxyPort=str(proxy.port))
    finally:
        proxy.close()
    verb, address, _ = proxy.asked[0]
    assert verb == "POST"
    assert address.startswith(f"http://127.0.0.1:{place.server.port}/")


def test_a_proxy_that_is_not_there_is_told(place):
    with pytest.raises(RetriableError, match=r"clickhouse\.unreachable"):
        check(place, proxyType="http", proxyHost="127.0.0.1", proxyPort="1")


# ── a real server of 2018 ────────────────────────────────────────────────────────────────────────


def test_a_server_that_is_too_old_is_refused_by_name(place):
    with OldClickHouse() as old:
        login = {"port": str(old.port), "database": "default", "username": "default"}
        config = parse_config(
            ClickHouseSinkConfig, place.config(**QUICK) | login | {"password": ""}
        )
        with pytest.raises(ConfigError, match=r"clickhouse\.too_old.*ClickHouse 18\.16"):
            ClickHouseSink.check(config)
