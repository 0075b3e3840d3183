"""Who a connector is at the brokers: the keys of Kafka's clients, at a broker that asks."""

import subprocess

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from penstock_kafka import KafkaSink
from penstock_kafka.kafka_source import KafkaSource, KafkaSourceConfig
from penstock_kafka.login import LoginConfig

from penstock_connector import AuthError, ConfigError, RetriableError
from penstock_connector._config import parse_config, read_config
from penstock_connector.testing import RemoteError, sink_task, source_task
from penstock_values import java_keystores
from support.kafka import PASSWORD, USER

MODULES = "org.apache.kafka.common.security"


def login(**keys):
    given = {name.replace("_", "."): text for name, text in keys.items()}
    return parse_config(LoginConfig, {"bootstrap.servers": "b:9092", **given})


def check(servers, **keys):
    given = {name.replace("_", "."): text for name, text in keys.items()}
    config = {"bootstrap.servers": servers, "topics": "any", **given}
    KafkaSource.check(parse_config(KafkaSourceConfig, config))


def jaas(module, **options):
    words = " ".join(f'{name}="{text}"' for name, text in options.items())
    return f"{MODULES}.{module} required {words};"


SASL = {"security_protocol": "SASL_PLAINTEXT"}
PLAIN = jaas("plain.PlainLoginModule", username=USER, password=PASSWORD)


def test_the_login_of_a_client_in_java_is_read():
    text = f'{MODULES}.plain.PlainLoginModule required\n username="a\\"b" password=x ;'
    settings = login(**SASL, sasl_jaas_config=text).settings()
    assert (settings["sasl.username"], settings["sasl.password"]) == ('a"b', "x")
    assert settings["sasl.mechanism"] == "PLAIN"


@pytest.mark.parametrize(
    ("keys", "code", "path"),
    [
        ({"sasl_jaas_config": "x"}, "kafka.jaas", "sasl.jaas.config"),
        ({"sasl_jaas_config": "a.Krb5LoginModule required;"}, "kafka.jaas", "sasl.jaas.config"),
        (
            {"sasl_jaas_config": jaas("plain.PlainLoginModule")},
            "config.missing",
            "sasl.jaas.config",
        ),
        (
            {"sasl_jaas_config": jaas("scram.ScramLoginModule", username="u")},
            "config.missing",
            "sasl.mechanism",
        ),
        ({"sasl_mechanism": "GSSAPI"}, "config.invalid_choice", "sasl.mechanism"),
        (
            {"sasl_mechanism": "OAUTHBEARER"},
            "config.missing",
            "sasl.oauthbearer.token.endpoint.url",
        ),
        ({"ssl_truststore_location": "/x"}, "config.conflict", "ssl.truststore.location"),
    ],
)
def test_what_cannot_be_a_login_is_refused(keys, code, path):
    with pytest.raises(ConfigError) as caught:
        login(**SASL, **keys)
    assert (caught.value.code, caught.value.config_path) == (code, path)
    assert "secret" not in str(caught.value)


def test_a_key_that_does_nothing_says_why():
    config = login(ssl_cipher_suites="x", sasl_login_class="y")
    assert set(config.unused_keys()) == {"ssl.cipher.suites", "sasl.login.class"}


def test_a_key_that_no_client_has_does_nothing_and_says_what_may_be_meant():
    told = login(sasl_pasword="x", ssl_quality="best").unused_keys()
    assert told == {
        "sasl.pasword": "Kafka's client has no such key; did you mean `sasl.password`?",
        "ssl.quality": "Kafka's client has no such key",
    }


def test_keys_of_a_clients_own_login_say_why_they_do_nothing():
    config = {"bootstrap.servers": "b:1", "topics": "t", "consumer.client.id": "c"}
    own = {"consumer.sasl.login.class": "x", "consumer.ssl.qualty": "y"}
    told = parse_config(KafkaSourceConfig, config | own).unused_keys()
    assert told.keys() == own.keys()


def test_a_client_may_be_somebody_else():
    config = login(security_protocol="SSL", ssl_truststore_certificates="pem")
    keys = {"security.protocol": "SASL_SSL", "sasl.jaas.config": PLAIN, "linger.ms": "1"}
    other = config.login("producer", keys)
    assert other.settings()["sasl.username"] == USER
    assert other.settings()["ssl.ca.pem"] == "pem"
    with pytest.raises(ConfigError) as caught:
        config.login("producer", {"security.protocol": "TLS"})
    assert caught.value.config_path == "producer.security.protocol"


def test_a_client_reaches_no_further_than_its_connector():
    reach = {"reach.hosts": "ok.example", "reach.folders": "/data"}
    given = {"bootstrap.servers": "ok.example:1", "topics": "t", **reach}
    for key, text in (
        ("consumer.bootstrap.servers", "evil.example:1"),
        ("consumer.ssl.truststore.location", "/etc/x"),
    ):
        keys = {**given, "consumer.security.protocol": "SSL", key: text}
        _, errors = read_config(KafkaSourceConfig, keys)
        assert [error.config_path for error in errors] == [key]


def test_a_user_logs_in_by_any_mechanism(kafka):
    scram = jaas("scram.ScramLoginModule", username=USER, password=PASSWORD)
    admin = kafka.admin()  # it must live until the answer is there
    for name in ("SCRAM_SHA_256", "SCRAM_SHA_512"):
        info = ScramCredentialInfo(getattr(ScramMechanism, name), 4096)
        new = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        admin.alter_user_scram_credentials([new])[USER].result(30)
        mechanism = name.replace("_", "-")
        check(kafka.guarded, **SASL, sasl_mechanism=mechanism, sasl_jaas_config=scram)
    check(kafka.guarded, **SASL, sasl_jaas_config=PLAIN)
    wrong = jaas("plain.PlainLoginModule", username=USER, password="no")
    with pytest.raises(AuthError, match=r"kafka\.not_authorized"):
        check(kafka.guarded, **SASL, sasl_jaas_config=wrong)


def test_a_client_shows_its_certificate_from_any_store(kafka, tmp_path):
    authority, tls = kafka.authority, {"security_protocol": "SSL"}
    certificate, key = authority.sign("ada")
    pem = tmp_path / "ada.pem"
    pem.write_text(certificate.read_text() + key.read_text())
    trust = {"ssl_truststore_location": str(authority.ca)}
    check(kafka.tls, **tls, **trust, ssl_keystore_location=str(pem))
    texts = {
        "ssl_truststore_certificates": authority.ca.read_text().replace("\n", "\\n"),
        "ssl_keystore_certificate_chain": certificate.read_text(),
        "ssl_keystore_key": key.read_text(),
    }
    check(kafka.tls, **tls, **texts)
    stores = {
        "ssl_truststore_location": _keytool(tmp_path / "trust.p12", "importcert", authority.ca),
        "ssl_truststore_password": "changeit",
        "ssl_keystore_location": _pkcs12(tmp_path / "ada.p12", certificate, key),
        "ssl_keystore_password": "changeit",
    }
    check(kafka.tls, **tls, **stores)
    with pytest.raises(RetriableError, match=r"kafka\.unavailable"):
        check(kafka.tls, **tls, **trust)  # without its certificate


def test_rows_go_to_and_from_a_broker_with_tls_and_users(kafka, topic):
    """Producer, admin, readers of offsets and consumers: each client has the whole login."""
    login = {
        "bootstrap.servers": kafka.guarded_tls, "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN,
        "ssl.truststore.location": str(kafka.authority.ca), "value.converter": "string",
    }  # fmt: skip
    sink = {"topic": topic, "offsets.storage.topic": f"{topic}-offsets",
            "transactional.id.prefix": f"{topic}-"}  # fmt: skip
    for epoch in (1, 2):  # the second one reads the offsets of the first
        with sink_task(KafkaSink, login | sink, epoch=epoch) as task:
            for _ in range(1, epoch):
                task.next_txn()
            task.write([{"value": f"row {epoch}"}])
    with source_task(KafkaSource, login | {"topics": topic}) as task:
        assert [row["value"] for row in task.rows(2)] == ["row 1", "row 2"]
        task.commit()
    with (
        pytest.raises(RemoteError) as caught,
        sink_task(KafkaSink, login | sink | {"sasl.jaas.config": PLAIN.replace(PASSWORD, "no")}),
    ):
        pass
    assert caught.value.code == "kafka.not_authorized"


@pytest.mark.parametrize("form", ["JKS", "JCEKS"])
def test_a_client_shows_its_certificate_from_a_store_of_java(kafka, tmp_path, form):
    certificate, key = kafka.authority.sign("ada")
    pkcs12 = _pkcs12(tmp_path / "ada.p12", certificate, key)
    own = tmp_path / "ada.store"
    _import(own, form, "-srckeystore", pkcs12, "-alias", "1", "-destkeypass", "of-the-key")
    trust = tmp_path / "trust.store"
    _keytool(trust, "importcert", kafka.authority.ca, "-storetype", form)
    stores = {
        "security_protocol": "SSL", "ssl_truststore_location": str(trust),
        "ssl_truststore_password": "changeit", "ssl_truststore_type": form,
        "ssl_keystore_location": str(own), "ssl_keystore_password": "changeit",
        "ssl_key_password": "of-the-key",
    }  # fmt: skip
    check(kafka.tls, **stores)
    check(kafka.tls, **stores | {"ssl_truststore_password": ""})  # as in Java, it is not checked
    for name, text in (("truststore", "password is wrong"), ("keystore", "password is wrong")):
        with pytest.raises(ConfigError, match=text) as caught:
            check(kafka.tls, **stores | {f"ssl_{name}_password": "geheim"})
        _is_of_store(caught.value, f"ssl.{name}.location", f"`ssl.{name}.password`")
    with pytest.raises(ConfigError, match="password of its key is wrong") as caught:
        check(kafka.tls, **stores | {"ssl_key_password": "geheim"})
    _is_of_store(caught.value, "ssl.keystore.location", "`ssl.key.password`")


def _is_of_store(error, path, fix):
    assert (error.code, error.config_path) == ("kafka.store", path)
    assert fix in error.fix
    assert "geheim" not in str(error)


def test_a_store_of_java_says_how_to_get_another_where_there_is_no_java(
    kafka, tmp_path, monkeypatch
):
    jks = tmp_path / "trust.jks"
    _keytool(jks, "importcert", kafka.authority.ca, "-storetype", "JKS")
    tls = {"security_protocol": "SSL"}
    with monkeypatch.context() as without_java:
        without_java.setenv("PATH", str(tmp_path))
        without_java.delenv("JAVA_HOME", raising=False)
        without_java.setattr(java_keystores, "_JVMS", tmp_path)
        with pytest.raises(ConfigError) as caught:
            check(kafka.tls, **tls, ssl_truststore_location=str(jks))
    assert caught.value.code == "kafka.store"
    command = caught.value.fix.partition("elsewhere: ")[2].partition(";")[0].split()
    words = ["-srcstorepass", "changeit", "-deststorepass", "changeit", "-noprompt"]
    subprocess.run([*command, *words], check=True, capture_output=True, timeout=60)
    converted = {
        "ssl_truststore_location": str(tmp_path / "trust.p12"),
        "ssl_truststore_password": "wrong",
    }
    with pytest.raises(ConfigError, match=r"kafka\.store.*ssl\.truststore\.password"):
        check(kafka.tls, **tls, **converted)


def _keytool(store, command, certificate, *more):
    words = ["-file", certificate, "-keystore", store, "-storepass", "changeit", "-noprompt"]
    subprocess.run(
        ["keytool", f"-{command}", "-alias", "ca", *map(str, words), *more],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return str(store)


def _import(store, form, *more):
    words = ["-destkeystore", str(store), "-deststoretype", form, "-deststorepass", "changeit"]
    subprocess.run(
        ["keytool", "-importkeystore", "-noprompt", "-srcstorepass", "changeit", *words, *more],
        check=True,
        capture_output=True,
        timeout=60,
    )


def _pkcs12(store, certificate, key):
    words = ["-in", certificate, "-inkey", key, "-out", store, "-passout", "pass:changeit"]
    subprocess.run(
        ["openssl", "pkcs12", "-export", *map(str, words)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return str(store)
