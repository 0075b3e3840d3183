"""Where the gateway listens."""

import pytest

from penstock.gateway.server.listeners import USUAL, Place, Serves, places
from penstock.model.errors import ConfigError


def test_listeners_are_written_as_kafka_connect_does():
    assert places(["http://:8083", "https://host:0/", "http://[::1]:80"]) == [
        Place("0.0.0.0:8083"),
        Place("host:0", tls=True),
        Place("[::1]:80"),
    ]
    assert [place.url for place in places(USUAL)] == list(USUAL)
    assert places(["none"]) == []


def test_what_is_for_admins_is_where_it_is_said_to_be():
    rest = [Place("h:1", serves=Serves.REST)]
    assert places(["http://h:1"]) == places(["http://h:1"], None) == [Place("h:1")]
    assert places(["http://h:1"], []) == places(["http://h:1"], ["none"]) == rest
    admin = Place("h:2", tls=True, serves=Serves.ADMIN)
    assert places(["http://h:1"], ["https://h:2"]) == [*rest, admin]
    with pytest.raises(ConfigError) as caught:
        places([], ["h:2"])
    assert caught.value.diagnostic.config_path == "admin.listeners"


@pytest.mark.parametrize(
    "listener",
    ["host:8083", "ftp://host:1", "http://host", "http://h:x", "http://h:99999", "http://[::1"],
)
def test_what_is_no_place_is_refused(listener):
    with pytest.raises(ConfigError) as caught:
        places([listener])
    assert caught.value.diagnostic.config_path == "listeners"
