"""Who we are at a registry: users of `sasl.jaas.config`, tokens of an issuer, and proxies."""

import base64
import json
import ssl
import time
import urllib.parse

import jwt
import pyarrow as pa
import pytest

from penstock_converters import RegistryAuthError, RegistryUnavailableError
from penstock_converters.registry import create_converter
from penstock_converters.schema_registry import tokens
from penstock_converters.schema_registry.keys import registry_hosts
from support.certificates import Authority
from support.processes import free_ports
from support.proxy import ProxyServer
from unit.converters.test_registry_client import FIELD, QUICK, Server, write

CLIENT = {
    "bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.client.id": "penstock",
    "bearer.auth.client.secret": "geheim",
}  # fmt: skip


@pytest.fixture
def server():
    made = Server()
    made.answers.append((200, b'{"id": 7}'))
    yield made
    made.close()


@pytest.fixture
def issuer():
    made = Server()
    yield made
    made.close()


def token(life_s):
    return jwt.encode({"sub": "penstock", "exp": int(time.time()) + life_s}, "k" * 32)


def issued(issuer):
    return CLIENT | {"bearer.auth.issuer.endpoint.url": f"{issuer.url}/token"}


def converter(url, **more):
    return create_converter("avro", {"schema.registry.url": url, **QUICK, **more})


def write_by(made, topic):
    made.encode(pa.array([], FIELD.type), FIELD, topic)


def answer(text, **more):
    return 200, json.dumps({"access_token": text, **more}).encode()


@pytest.mark.parametrize("module", ["plain.PlainLoginModule", "scram.ScramLoginModule"])
def test_the_user_of_brokers_is_that_of_the_registry(server, module):
    jaas = f'org.apache.kafka.common.security.{module} required username="u" password="a:b";'
    keys = {"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": jaas}
    write(server.url, **keys)
    ((_, login, _),) = server.asked
    assert login == "Basic " + base64.b64encode(b"u:a:b").decode()


def test_keys_may_have_the_prefix_of_the_registry(server):
    keys = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "u:geheim"}
    write(server.url, **{f"schema.registry.{name}": text for name, text in keys.items()})
    ((_, login, _),) = server.asked
    assert login == "Basic " + base64.b64encode(b"u:geheim").decode()


def test_a_token_of_an_issuer_is_sent_and_kept_until_shortly_before_its_end(server, issuer):
    first, second = token(3600), token(3700)
    issuer.answers += [answer(first), answer(second)]
    more = {
        "bearer.auth.scope": "schemas a", "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }  # fmt: skip
    made = converter(server.url, **issued(issuer), **more)
    for at in range(3):
        write_by(made, f"topic{at}")
    ((path, login, body),) = issuer.asked
    assert (path, login) == ("/token", "Basic " + base64.b64encode(b"penstock:geheim").decode())
    form = {"grant_type": ["client_credentials"], "scope": ["schemas a"]}
    assert urllib.parse.parse_qs(body.decode()) == form
    assert [login for _, login, _ in server.asked] == [f"Bearer {first}"] * 3
    assert server.headers["target-sr-cluster"] == "lsrc-1"
    assert server.headers["Confluent-Identity-Pool-Id"] == "pool-1"
    server.answers[:] = [(401, b"{}")]  # it was taken back: the next question has another one
    with pytest.raises(RegistryAuthError):
        write_by(made, "other")
    server.answers[:] = [(200, b'{"id": 7}')]
    write_by(made, "other")
    assert server.asked[-1][1] == f"Bearer {second}"


@pytest.mark.parametrize(
    ("life_s", "buffer_s", "usable_s"), [(1000, 300, 700), (1000, 100, 800), (200, 300, 160)]
)
def test_a_token_is_used_for_a_part_of_its_life(life_s, buffer_s, usable_s):
    """As Confluent's clients reckon."""
    assert tokens._usable_for(life_s, buffer_s) == usable_s


def test_the_life_of_a_token_that_does_not_tell_it_is_that_of_the_answer(server, issuer):
    issuer.answers += [answer("opaque", expires_in=600), answer("other")]
    made = converter(server.url, **issued(issuer))
    for at in range(2):
        write_by(made, f"topic{at}")
    assert len(issuer.asked) == 1


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([(503, b"")], RegistryUnavailableError),
        ([(401, b'{"error": "invalid_client"}')], RegistryAuthError),
        ([(200, b"<html>")], RegistryAuthError),
        ([(200, b"[]")], RegistryAuthError),
        ([answer("a\nb")], RegistryAuthError),
        ([(302, b"")], RegistryAuthError),
    ],
)
def test_an_issuer_that_gives_none_is_told_without_the_secret(server, issuer, answers, kind):
    issuer.answers += answers
    with pytest.raises(kind, match=f"the issuer of tokens, {issuer.url}/token") as caught:
        write(server.url, **issued(issuer))
    assert "geheim" not in str(caught.value)
    assert not server.asked


def test_an_issuer_that_is_away_is_asked_again(server, issuer):
    issuer.answers += [(503, b""), answer(token(60))]
    write(server.url, **issued(issuer))
    assert len(issuer.asked) == 2


@pytest.fixture
def proxy():
    made = ProxyServer()
    yield made
    made.close()


def test_a_registry_is_reached_by_its_proxy(server, proxy):
    keys = {"proxy.host": "127.0.0.1", "proxy.port": str(proxy.port)}
    write(server.url, **keys)
    write(server.url, **keys | {"proxy.host": "http://127.0.0.1"})
    path = "/subjects/a%20topic%2F%C3%BC-value/versions?normalize=false"
    assert [found[:2] for found in proxy.asked] == [("POST", server.url + path)] * 2
    assert len(server.asked) == 2
    (dead,) = free_ports(1)
    with pytest.raises(RegistryUnavailableError, match=server.url):
        write(server.url, **keys | {"proxy.port": str(dead)})


def test_a_proxy_connects_to_a_registry_with_tls(proxy, tmp_path):
    authority = Authority(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.sign("registry", address="127.0.0.1"))
    server = Server(tls)
    server.answers.append((200, b'{"id": 7}'))
    keys = {"proxy.host": "127.0.0.1", "proxy.port": str(proxy.port)}
    keys["schema.registry.ssl.truststore.location"] = str(authority.ca)
    try:
        write(server.url, **keys)
    finally:
        server.close()
    assert [found[:2] for found in proxy.asked] == [("CONNECT", f"127.0.0.1:{server.port}")]
    proxy.refuses = 502
    with pytest.raises(RegistryUnavailableError, match="502"):
        write(server.url, **keys)


def test_a_proxy_and_an_issuer_are_hosts_that_a_converter_reaches():
    keys = {"schema.registry.url": "http://a", "schema.registry.proxy.host": "p"}
    keys |= {"bearer.auth.issuer.endpoint.url": "https://i:1/t"}
    assert registry_hosts(keys) == ("a", "i", "p")
