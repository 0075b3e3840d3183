"""Keys of Apicurio's converters: what they mean, and what is refused by name."""

import pytest

from penstock_converters import InvalidConverterError
from penstock_converters.registry import create_converter, unknown_keys, unused_keys
from penstock_converters.schema_registry.apicurio_keys import APICURIO_KEYS, read_apicurio
from penstock_converters.schema_registry.keys import registry_files, registry_hosts

A = "apicurio.registry."
V3 = {f"{A}url": "http://r:8080/apis/registry/v3"}
V2 = {
    f"{A}url": "https://r/apis/registry/v2/", f"{A}headers.enabled": "false",
    f"{A}use-id": "contentId",
}  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "id_bytes", "url"),
    [
        (V3, 4, "http://r:8080/apis/ccompat/v7"),
        (V3 | {f"{A}id-handler": "io.apicurio.registry.serde.Legacy8ByteIdHandler"}, 8, ""),
        (V2, 8, "https://r/apis/ccompat/v7"),
        (V2 | {f"{A}as-confluent": "true"}, 4, ""),
        (V2 | {f"{A}id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler"}, 4, ""),
        (V2 | {f"{A}url": "http://u:p@r:1"}, 8, "http://u:p@r:1/apis/ccompat/v7"),
    ],
)
def test_the_form_of_ids_is_that_of_the_version_and_of_its_keys(keys, id_bytes, url):
    found = read_apicurio(keys)
    assert found.id_bytes == id_bytes
    assert not url or found.keys["schema.registry.url"] == url


def test_the_defaults_are_those_of_apicurio():
    found = read_apicurio(V3)
    assert found.group == ""
    assert found.keys == {
        "schema.registry.url": "http://r:8080/apis/ccompat/v7", "auto.register.schemas": "false",
        "use.latest.version": "false", "value.subject.name.strategy": "TopicNameStrategy",
        "key.subject.name.strategy": "TopicNameStrategy", "max.retries": "3",
        "retries.wait.ms": "300", "latest.cache.ttl.sec": "30",
    }  # fmt: skip


def test_every_key_has_its_meaning():
    found = read_apicurio(
        V3 | {
            f"{A}auto-register": "true", f"{A}auto-register.if-exists": "FIND_OR_CREATE_VERSION",
            f"{A}find-latest": "true", f"{A}artifact.group-id": "shop", f"{A}retry-count": "1",
            f"{A}retry-backoff-ms": "5", f"{A}check-period-ms": "1500", f"{A}tls.verify-host":
            "false", f"{A}tls.truststore.location": "/t", f"{A}request.ssl.keystore.location": "/k",
            f"{A}request.ssl.key.password": "p", f"{A}proxy.host": "proxy",
            f"{A}proxy.port": "3128",
            f"{A}artifact-resolver-strategy": "io.apicurio.x.QualifiedRecordIdStrategy",
            "enhanced.avro.schema.support": "true",
        }
    )  # fmt: skip
    assert found.group == "shop"
    assert found.keys == {
        "schema.registry.url": "http://r:8080/apis/ccompat/v7", "auto.register.schemas": "true",
        "use.latest.version": "true", "value.subject.name.strategy": "RecordNameStrategy",
        "key.subject.name.strategy": "RecordNameStrategy", "max.retries": "1",
        "retries.wait.ms": "5", "latest.cache.ttl.sec": "2",
        "schema.registry.ssl.endpoint.identification.algorithm": "",
        "schema.registry.ssl.truststore.location": "/t",
        "schema.registry.ssl.keystore.location": "/k", "schema.registry.ssl.key.password": "p",
        "proxy.host": "proxy", "proxy.port": "3128", "enhanced.avro.schema.support": "true",
    }  # fmt: skip
    cached = read_apicurio(V3 | {f"{A}cache-latest": "false"})
    assert cached.keys["latest.cache.ttl.sec"] == "0"


@pytest.mark.parametrize("start", ["apicurio.", "apicurio.registry."])
def test_logins_of_both_versions_are_read(start):
    user = {f"{start}auth.username": "u", f"{start}auth.password": "geheim"}
    assert read_apicurio(V3 | user).keys["basic.auth.user.info"] == "u:geheim"
    client = {
        f"{start}auth.service.token.endpoint": "http://issuer/token", f"{start}auth.client.id": "c",
        f"{start}auth.client.secret": "geheim", f"{start}auth.client.scope": "s",
    }  # fmt: skip
    found = read_apicurio(V3 | client).keys
    assert found["bearer.auth.credentials.source"] == "OAUTHBEARER"
    assert found["bearer.auth.issuer.endpoint.url"] == "http://issuer/token"
    assert (found["bearer.auth.client.id"], found["bearer.auth.scope"]) == ("c", "s")
    create_converter("avro", V3 | client)
    assert registry_hosts(V3 | client) == ("r", "issuer")


@pytest.mark.parametrize(
    ("config", "path", "words"),
    [
        ({f"{A}url": "http://r/apis/registry/v2"}, f"{A}headers.enabled", "headers.enabled=false"),
        ({f"{A}url": "http://r"}, f"{A}headers.enabled", "by default in Apicurio 2.x"),
        (V3 | {f"{A}headers.enabled": "true"}, f"{A}headers.enabled", "in headers"),
        ({f"{A}url": "http://r/apis/registry/v2", f"{A}headers.enabled": "false"}, f"{A}use-id",
         "use-id=contentId"),
        (V3 | {f"{A}use-id": "globalId"}, f"{A}use-id", "versions of artifacts"),
        (V3 | {f"{A}id-handler": "com.acme.Ids"}, f"{A}id-handler", "Default4ByteIdHandler"),
        (V3 | {f"{A}artifact.artifact-id": "orders"}, f"{A}artifact.artifact-id", "remove it"),
        (V3 | {f"{A}auto-register.if-exists": "FAIL"}, f"{A}auto-register.if-exists", "RETURN_OR"),
        (V3 | {f"{A}artifact-resolver-strategy": "a.SimpleTopicIdStrategy"},
         f"{A}artifact-resolver-strategy", "TopicIdStrategy or"),
        (V3 | {f"{A}avro.encoding": "JSON"}, f"{A}avro.encoding", "BINARY"),
        (V3 | {f"{A}tls.trust-all": "true"}, f"{A}tls.trust-all", "false"),
        (V3 | {"schema.registry.url": "http://r"}, f"{A}url", "Remove one"),
        ({f"{A}url": "http://u:geheim@r/other/path"}, f"{A}url", "/apis/registry/v2"),
        ({f"{A}url": "r:8080"}, f"{A}url", "http://host:port"),
    ],
)  # fmt: skip
def test_another_form_of_messages_is_refused_by_its_key(config, path, words):
    with pytest.raises(InvalidConverterError) as caught:
        create_converter("avro", config)
    assert caught.value.config_path == path
    assert words in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("name", ["json-schema", "protobuf"])
def test_converters_of_apicurio_with_bytes_of_their_own_are_refused(name):
    with pytest.raises(InvalidConverterError, match=r"ccompat/v7") as caught:
        create_converter(name, V3)
    assert caught.value.config_path == f"{A}url"


def test_keys_of_apicurio_are_known_and_their_files_in_view():
    assert unknown_keys("avro", {one.name: "" for one in APICURIO_KEYS}) == frozenset()
    assert registry_files(V3 | {f"{A}tls.truststore.location": "/t"}) == (
        f"{A}tls.truststore.location",
    )
    assert registry_hosts(V3 | {f"{A}proxy.host": "p"}) == ("r", "p")
    both = V3 | {f"{A}auto-register": "true", f"{A}find-latest": "true"}
    assert unused_keys("avro", both).keys() == {f"{A}find-latest"}
    assert unused_keys("avro", V3 | {f"{A}find-latest": "true"}) == {}
