"""Connectors of web APIs ask the hosts that they are told, and no other."""

import pytest

from penstock_connector._config import read_config
from penstock_connector._connectors import spec_of
from penstock_connector.testing import RemoteError, source_task
from penstock_net import CONNECTORS, HttpSink, HttpSource
from support.web import Reply

OAUTH = {
    "auth.type": "oauth2",
    "oauth2.client.id": "x",
    "oauth2.client.secret": "y",
    "oauth2.token.url": "http://login.example/token",
}


def found(connector, config, **told):
    """What is found of a configuration: codes and keys."""
    reach = {"reach.folders": told.get("folders", "*"), "reach.hosts": told.get("hosts", "*")}
    _, errors = read_config(connector.config_type, {**config, **reach})
    return [(error.code, error.config_path) for error in errors]


@pytest.mark.parametrize("connector", CONNECTORS)
def test_every_connector_keeps_to_it(connector):
    assert spec_of(connector).enforces_reach


@pytest.mark.parametrize("connector", [HttpSource, HttpSink])
@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"url": "http://169.254.169.254/latest"}, "url"),
        ({"url": "http://api.example.evil/"}, "url"),
        ({"url": "http://api.example/", **OAUTH}, "oauth2.token.url"),
    ],
)
def test_a_host_outside_is_refused_by_its_key(connector, config, path):
    assert found(connector, config, hosts="api.example") == [("reach.host", path)]
    assert found(connector, config) == []


@pytest.mark.parametrize("key", ["tls.ca", "tls.cert", "tls.key"])
def test_a_file_outside_is_refused_by_its_key(key):
    config = {"url": "http://api.example/", key: "/etc/shadow"}
    assert found(HttpSource, config, folders="/data") == [("reach.folder", key)]


def code(web, **more):
    keys = {"url": f"{web.url}/x", "tail": "false", "reach.hosts": "localhost", **more}
    try:
        with source_task(HttpSource, keys) as task:
            task.all_rows()
    except RemoteError as error:
        return error.diagnostic.code
    return ""


def elsewhere(web):
    """The address of a server as a number, which is not allowed."""
    return web.url.replace("localhost", "127.0.0.1")


def test_a_redirect_to_another_host_is_not_followed(web, other_web):
    web.answer = [Reply(status=302, headers={"Location": f"{elsewhere(other_web)}/x"})]
    assert code(web) == "reach.host"
    assert other_web.asked == []


def test_a_host_inside_is_asked(web):
    web.answer = [Reply([{"id": 1}])]
    assert code(web) == ""
