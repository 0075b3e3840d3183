"""Where a connector may be led: by a redirect, a name, a row, a link to the next page."""

import socket

import pytest

from penstock_connector._config import parse_config
from penstock_connector.addresses import AddressPolicy
from penstock_connector.testing import RemoteError, sink_task, source_task, validate
from penstock_net import HttpSink, HttpSource
from support.web import Reply

ROWS = [{"id": 1}]
METADATA = "169.254.169.254"


def keys(url, **more):
    base = {"url": url, "tail": "false", "retry.backoff": "1ms", "retries": "0"}
    return base | {name.replace("_", "."): str(value) for name, value in more.items()}


def read(url, **more):
    with source_task(HttpSource, keys(url, **more)) as task:
        return task.all_rows()


def failure(url, **more):
    with pytest.raises(RemoteError) as caught:
        read(url, **more)
    return caught.value.diagnostic


def moved(url):
    return lambda asked: Reply(status=302, headers={"Location": url})


@pytest.fixture
def names(monkeypatch):
    """Names whose addresses the test says: each look-up takes the next one, the last one stays."""
    known, looks = {}, []
    look_up = socket.getaddrinfo

    def answer(host, port, *more, **named):
        if host not in known:
            return look_up(host, port, *more, **named)
        looks.append(host)
        addresses = known[host]
        address = addresses.pop(0) if len(addresses) > 1 else addresses[0]
        return look_up(address, port, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    known["looks"] = looks
    return known


@pytest.fixture
def no_metadata(monkeypatch):
    """A link-local address answers with a failure at once; what was dialled is listed."""
    dialled = []
    connect = socket.socket.connect

    def dial(self, place):
        if self.family != socket.AF_UNIX and place[0].startswith(("169.254.", "10.")):
            dialled.append(place)
            raise ConnectionRefusedError("nothing is there")
        return connect(self, place)

    monkeypatch.setattr(socket.socket, "connect", dial)
    return dialled


SPELLINGS = ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0", "[::ffff:127.0.0.1]"]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_loopback_that_the_configuration_names_is_asked(web, host):
    web.answer = lambda asked: Reply(ROWS)
    assert read(f"http://{host}:{web.port}/") == ROWS


@pytest.mark.parametrize("host", SPELLINGS)
def test_other_spellings_of_loopback_are_refused(web, host):
    web.answer = lambda asked: Reply(ROWS)
    url = f"http://{host}:{web.port}/"
    diagnostic = failure(url)
    assert (diagnostic.code, diagnostic.config_path) == (
        "http.address_refused",
        "allowed.addresses",
    )
    assert host.strip("[]") in diagnostic.message
    assert web.asked == []
    # the twin: the fix that the error names opens it
    assert read(url, allowed_addresses=diagnostic.suggestion) == ROWS


def test_a_name_that_means_loopback_is_refused(web, names):
    web.answer = lambda asked: Reply(ROWS)
    names["inside.example"] = ["127.0.0.1"]
    url = f"http://inside.example:{web.port}/"
    diagnostic = failure(url)
    assert diagnostic.code == "http.address_refused"
    assert "inside.example is 127.0.0.1" in diagnostic.message
    assert web.asked == []
    assert read(url, allowed_addresses="inside.example") == ROWS
    assert read(url, allowed_addresses="127.0.0.0/8") == ROWS


def test_a_name_that_changes_its_address_after_the_look_does_not_help(web, names, no_metadata):
    """The socket goes to the address that was looked at. The twin allows both."""
    web.answer = lambda asked: Reply(ROWS)
    names["changing.example"] = ["10.1.2.3", "127.0.0.1"]
    url = f"http://changing.example:{web.port}/"
    assert failure(url).code == "http.unreachable"
    assert no_metadata == [("10.1.2.3", web.port)]
    assert names["looks"] == ["changing.example"]
    assert failure(url).code == "http.address_refused"
    assert web.asked == []
    assert read(url, allowed_addresses="127.0.0.1") == ROWS


def test_a_redirect_to_another_server_of_the_machine_is_refused(web, other_web, far_web):
    for target in (other_web, far_web):
        target.answer = lambda asked: Reply(ROWS)
        web.answer = moved(target.url + "/y")
        diagnostic = failure(web.url)
        assert diagnostic.code == "http.address_refused"
        assert "localhost" in diagnostic.message
        assert target.asked == []
        assert read(web.url, allowed_addresses=diagnostic.suggestion) == ROWS
        assert len(target.asked) == 1


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_redirect_to_another_spelling_is_refused(web, other_web, host):
    other_web.answer = lambda asked: Reply(ROWS)
    web.answer = moved(f"http://{host}:{other_web.port}/y")
    assert failure(web.url).code == "http.address_refused"
    assert other_web.asked == []
    assert read(web.url, allowed_addresses="127.0.0.0/8, 0.0.0.0") == ROWS


@pytest.mark.parametrize("host", [METADATA, "2852039166", f"[::ffff:{METADATA}]", "[fe80::1]"])
def test_metadata_is_refused_wherever_it_stands(web, no_metadata, host):
    web.answer = moved(f"http://{host}/latest/meta-data")
    for url in (web.url, f"http://{host}/latest"):
        diagnostic = failure(url)
        assert diagnostic.code == "http.address_refused"
        assert "link-local" in diagnostic.message
    assert no_metadata == []


def test_metadata_that_is_allowed_is_asked(web, no_metadata):
    web.answer = moved(f"http://{METADATA}/latest/meta-data")
    assert failure(web.url, allowed_addresses=METADATA).code == "http.unreachable"
    assert no_metadata == [(METADATA, 80)]


def test_a_public_server_leads_to_no_private_one(web, names, no_metadata):
    """The twin: a private one may."""
    policy = AddressPolicy()
    names["public.example"], names["private.example"] = ["93.184.215.14"], ["10.1.2.3"]
    with pytest.raises(Exception, match=r"net\.address_refused.*private network.*public\.example"):
        policy.connect("10.9.9.9", 80, 1, configured=False, led_from="public.example")
    assert no_metadata == []
    with pytest.raises(ConnectionRefusedError):
        policy.connect("10.9.9.9", 80, 1, configured=False, led_from="private.example")
    assert no_metadata == [("10.9.9.9", 80)]


def test_a_redirect_to_a_file_is_refused(web, tmp_path):
    (tmp_path / "secret").write_text("[]")
    web.answer = moved((tmp_path / "secret").as_uri())
    assert failure(web.url).code == "http.bad_url"
    assert validate(HttpSource, {"url": (tmp_path / "secret").as_uri()}) == ["http.bad_url"]


def test_a_token_url_has_the_same_policy(web, other_web):
    web.answer = lambda asked: Reply(ROWS)
    other_web.answer = lambda asked: Reply({"access_token": "t"})
    login = {"auth_type": "oauth2", "oauth2_client_id": "me", "oauth2_client_secret": "hush"}
    hidden = f"http://2130706433:{other_web.port}/token"
    assert failure(web.url, **login, oauth2_token_url=hidden).code == "http.address_refused"
    assert other_web.asked == []
    plain = f"http://127.0.0.1:{other_web.port}/token"
    assert read(web.url, **login, oauth2_token_url=plain) == ROWS


def test_a_sink_has_the_same_policy(web):
    web.answer = lambda asked: Reply(status=202)
    url = f"http://2130706433:{web.port}/"
    keys_ = {"url": url, "retries": "0"}
    with (
        pytest.raises(RemoteError, match=r"http\.address_refused"),
        sink_task(HttpSink, keys_) as task,
    ):
        task.write(ROWS)
    assert web.asked == []
    with pytest.raises(Exception, match=r"http\.address_refused"):
        HttpSink.check(parse_config(HttpSink.config_type, keys_))
    with sink_task(HttpSink, keys_ | {"allowed.addresses": "127.0.0.1"}) as task:
        task.write(ROWS)
    assert len(web.asked) == 1


def test_a_host_that_a_row_names_is_not_the_users_word(web):
    web.answer = lambda asked: Reply(status=202)
    keys_ = {"url": f"http://${{host}}:{web.port}/", "retries": "0"}
    row = [{"host": "127.0.0.1"}]
    with (
        pytest.raises(RemoteError, match=r"http\.address_refused"),
        sink_task(HttpSink, keys_) as task,
    ):
        task.write(row)
    assert web.asked == []
    with sink_task(HttpSink, keys_ | {"allowed.addresses": "127.0.0.1"}) as task:
        task.write(row)
    assert len(web.asked) == 1


def test_a_next_page_behind_a_redirect_gets_no_credentials(web, other_web):
    """Its origin is that of the answer, and still not the one that the secrets are for."""
    web.answer = moved(other_web.url + "/1")
    last = other_web.url + "/2"
    other_web.answer = lambda asked: (
        Reply(ROWS, headers={"Link": f'<{last}>; rel="next"'}) if asked.path == "/1" else Reply([])
    )
    secrets = {
        "auth_type": "bearer", "auth_token": "hush", "headers_secret": "X-Key: k",
        "query_secret": "sign=k", "mode": "next", "allowed_addresses": "localhost",
    }  # fmt: skip
    assert read(web.url, **secrets) == ROWS
    assert [asked.path for asked in other_web.asked] == ["/1", "/2"]
    for asked in other_web.asked:
        assert (asked.headers["Authorization"], asked.headers["X-Key"]) == (None, None)
        assert asked.query == {}
    assert web.asked[0].headers["Authorization"] == "Bearer hush"
    assert web.asked[0].query == {"sign": "k"}


@pytest.mark.parametrize("item", ["http://x/", "10.0.0.0/99", "*", "a b"])
def test_what_is_no_address_is_refused(item):
    assert validate(HttpSource, {"url": "http://x/", "allowed.addresses": item}) == [
        "config.invalid_value"
    ]
