"""Where the gateway listens."""

import pytest

from penstock.gateway.listeners import DEFAULT_LISTENERS, Listener, ListenerScope, parse_listeners
from penstock.model.errors import ConfigError


def test_listeners_are_written_as_kafka_connect_does():
    assert parse_listeners(["http://:8083", "https://host:0/", "http://[::1]:80"]) == [
        Listener("0.0.0.0:8083"),
        Listener("host:0", tls=True),
        Listener("[::1]:80"),
    ]
    assert [place.url for place in parse_listeners(DEFAULT_LISTENERS)] == list(DEFAULT_LISTENERS)
    assert parse_listeners(["none"]) == []


def test_what_is_for_admins_is_where_it_is_said_to_be():
    rest = [Listener("h:1", scope=ListenerScope.REST)]
    assert (
        parse_listeners(["http://h:1"])
        == parse_listeners(["http://h:1"], None)
        == [Listener("h:1")]
    )
    assert parse_listeners(["http://h:1"], []) == parse_listeners(["http://h:1"], ["none"]) == rest
    admin = Listener("h:2", tls=True, scope=ListenerScope.ADMIN)
    assert parse_listeners(["http://h:1"], ["https://h:2"]) == [*rest, admin]
    with pytest.raises(ConfigError) as caught:
        parse_listeners([], ["h:2"])
    assert caught.value.diagnostic.config_path == "admin.listeners"


@pytest.mark.parametrize(
    "listener",
    ["host:8083", "ftp://host:1", "http://host", "http://h:x", "http://h:99999", "http://[::1"],
)
def test_what_is_no_place_is_refused(listener):
    with pytest.raises(ConfigError) as caught:
        parse_listeners([listener])
    assert caught.value.diagnostic.config_path == "listeners"
