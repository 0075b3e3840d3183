"""Requests through a proxy: what it sees, what it is not asked for, and where it may not lead."""

import ssl

import pytest

from penstock_connector.testing import RemoteError, sink_task, source_task, validate
from penstock_net import HttpSink, HttpSource
from support.proxy import ProxyServer
from support.web import Reply, WebServer

ROWS = [{"id": 1}]


@pytest.fixture
def proxy():
    server = ProxyServer()
    yield server
    server.close()


@pytest.fixture
def secure_web(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = WebServer(context)
    yield server
    server.close()


def keys(url, proxy, **more):
    base = {"url": url, "tail": "false", "retry.backoff": "1ms", "retries": "0"}
    base |= {"proxy.url": proxy.url}
    return base | {name.replace("_", "."): str(value) for name, value in more.items()}


def read(url, proxy, **more):
    with source_task(HttpSource, keys(url, proxy, **more)) as task:
        return task.all_rows()


def failure(url, proxy, **more):
    with pytest.raises(RemoteError) as caught:
        read(url, proxy, **more)
    return caught.value.diagnostic


def test_a_proxy_passes_requests_on(web, proxy):
    web.answer = lambda asked: Reply(ROWS)
    assert read(web.url + "/x?a=b", proxy, auth_type="bearer", auth_token="t") == ROWS
    assert [(verb, target) for verb, target, _ in proxy.asked] == [("GET", f"{web.url}/x?a=b")]
    assert web.asked[0].headers["Authorization"] == "Bearer t"
    assert web.asked[0].headers["Host"] == f"localhost:{web.port}"


def test_rows_are_sent_through_it(web, proxy):
    web.answer = lambda asked: Reply(status=202)
    with sink_task(HttpSink, {"url": web.url, "proxy.url": proxy.url}) as task:
        task.write(ROWS)
    assert [verb for verb, _, _ in proxy.asked] == ["POST"]
    assert web.asked[0].body == b'{"id":1}'


def test_of_https_it_sees_the_host_alone_and_the_certificate_is_checked(
    secure_web, proxy, certificate
):
    secure_web.answer = lambda asked: Reply(ROWS)
    login = {"auth_type": "bearer", "auth_token": "hush"}
    assert failure(secure_web.url, proxy, **login).code == "http.tls"
    assert read(secure_web.url, proxy, **login, tls_ca=certificate[0]) == ROWS
    assert [(verb, target) for verb, target, _ in proxy.asked] == [
        ("CONNECT", f"localhost:{secure_web.port}")
    ] * 2
    assert {headers["Authorization"] for _, _, headers in proxy.asked} == {None}
    assert secure_web.asked[0].headers["Authorization"] == "Bearer hush"


@pytest.mark.parametrize("tls", [False, True])
def test_its_users_password_is_for_it_alone(web, secure_web, proxy, certificate, tls):
    server = secure_web if tls else web
    server.answer = lambda asked: Reply(ROWS)
    proxy.login = "me:p:w"
    login = {"proxy_user": "me", "proxy_password": "p:w", "tls_ca": certificate[0]}
    assert read(server.url, proxy, **login) == ROWS
    assert server.asked[0].headers["Proxy-Authorization"] is None
    diagnostic = failure(server.url, proxy, **(login | {"proxy_password": "other"}))
    assert (diagnostic.code, diagnostic.config_path) == ("http.auth", "proxy.user")
    assert "other" not in str(diagnostic)
    assert len(server.asked) == 1


def test_hosts_that_are_left_out_are_asked_directly(web, proxy):
    web.answer = lambda asked: Reply(ROWS)
    for exclude in ("localhost", "x.example, *.x.example, localhost"):
        assert read(web.url, proxy, proxy_exclude=exclude) == ROWS
    assert proxy.asked == []
    numbered = web.url.replace("localhost", "127.0.0.1")
    assert read(numbered, proxy, proxy_exclude="127.0.0.0/8") == ROWS
    assert proxy.asked == []
    assert read(web.url, proxy, proxy_exclude="*.example") == ROWS
    assert len(proxy.asked) == 1


def test_variables_of_the_process_name_none(web, proxy, monkeypatch):
    web.answer = lambda asked: Reply(ROWS)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    with source_task(HttpSource, {"url": web.url, "tail": "false"}) as task:
        assert task.all_rows() == ROWS
    assert proxy.asked == []


def test_a_token_is_fetched_through_it(web, other_web, proxy):
    web.answer = lambda asked: Reply(ROWS)
    other_web.answer = lambda asked: Reply({"access_token": "t"})
    login = {
        "auth_type": "oauth2", "oauth2_client_id": "me", "oauth2_client_secret": "hush",
        "oauth2_token_url": other_web.url + "/token",
    }  # fmt: skip
    assert read(web.url, proxy, **login) == ROWS
    assert [(verb, target) for verb, target, _ in proxy.asked] == [
        ("POST", f"{other_web.url}/token"), ("GET", f"{web.url}/"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "169.254.169.254"]
)
def test_a_redirect_leads_no_further_inside_through_it(web, other_web, proxy, host):
    other_web.answer = lambda asked: Reply(ROWS)
    there = f"http://{host}:{other_web.port}/y"
    web.answer = lambda asked: Reply(status=302, headers={"Location": there})
    assert failure(web.url, proxy).code == "http.address_refused"
    assert len(proxy.asked) == 1
    assert other_web.asked == []
    if host == "localhost":  # the twin
        assert read(web.url, proxy, allowed_addresses=host) == ROWS


def test_a_name_that_means_loopback_is_not_asked_for(web, proxy):
    url = f"http://2130706433:{web.port}/"
    assert failure(url, proxy).code == "http.address_refused"
    assert proxy.asked == []


def test_a_name_that_only_the_proxy_knows_is_asked_for(proxy):
    proxy.refuses = 502
    diagnostic = failure("http://no.such.host.invalid/x", proxy)
    assert diagnostic.code == "http.server_error"
    assert [target for _, target, _ in proxy.asked] == ["http://no.such.host.invalid:80/x"]


def test_a_proxy_that_does_not_connect_is_told(proxy):
    proxy.refuses = 503
    diagnostic = failure("https://no.such.host.invalid/x", proxy)
    assert (diagnostic.code, diagnostic.config_path) == ("http.unreachable", "proxy.url")
    assert "503" in diagnostic.message


def test_a_proxy_that_is_not_there_is_told(web, proxy):
    assert failure(web.url, proxy, proxy_url="http://localhost:1").code == "http.unreachable"
    refused = failure(web.url, proxy, proxy_url=f"http://2130706433:{proxy.port}")
    assert refused.code == "http.address_refused"
    assert web.asked == []


def test_a_proxy_is_a_host_that_the_node_bounds(web, other_web, proxy):
    url = "http://api.example/"
    assert validate(HttpSource, keys(url, proxy) | {"reach.hosts": "api.example"}) == ["reach.host"]
    bounded = {"reach_hosts": "localhost"}
    there = other_web.url.replace("localhost", "127.0.0.1")
    web.answer = lambda asked: Reply(status=302, headers={"Location": there})
    assert failure(web.url, proxy, **bounded).code == "reach.host"
    assert other_web.asked == []


@pytest.mark.parametrize(
    ("more", "codes"),
    [
        ({"proxy.url": "socks5://x:1"}, ["http.bad_url"]),
        ({"proxy.url": "http://me:pw@x/"}, ["http.bad_url"]),
        ({"proxy.user": "me"}, ["config.missing"]),
        ({"proxy.exclude": "x"}, ["config.missing"]),
        ({"proxy.url": "http://x", "proxy.password": "pw"}, ["config.missing"]),
        ({"proxy.url": "http://x", "proxy.user": "me", "proxy.password": "pw"}, []),
    ],
)
def test_configurations_of_proxies_are_checked(more, codes):
    assert validate(HttpSource, {"url": "http://x/", **more}) == codes
