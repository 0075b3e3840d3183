"""Logins by tokens: where Kafka's clients get them, at a broker that believes any token."""

import base64
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
)
from penstock_kafka.kafka_sink import KafkaSink
from penstock_kafka.kafka_source import KafkaSource, KafkaSourceConfig
from penstock_kafka.login import LoginConfig

from penstock_connector import AuthError, ConfigError
from penstock_connector._config import parse_config, read_config
from penstock_connector.testing import sink_task, source_task

OAUTH = "sasl.oauthbearer."
URL = f"{OAUTH}token.endpoint.url"
RETRIEVER = f"{OAUTH}jwt.retriever.class"
CLIENT = f"{OAUTH}client.credentials.client."
JAVA = "org.apache.kafka.common.security.oauthbearer."
BY_TOKEN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


def check(servers, keys):
    config = {"bootstrap.servers": servers, "topics": "any", **BY_TOKEN, **keys}
    KafkaSource.check(parse_config(KafkaSourceConfig, config))


def login(keys):
    return parse_config(LoginConfig, {"bootstrap.servers": "b:9092", **BY_TOKEN, **keys})


def jaas(**options):
    words = " ".join(f'{name}="{text}"' for name, text in options.items())
    return f"{JAVA}OAuthBearerLoginModule required {words};"


@pytest.fixture
def tokens():
    """A server that gives tokens to one client, and takes note of what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append(urllib.parse.parse_qs(body) | {"login": self.headers["Authorization"]})
            known = base64.b64encode(b"penstock:secret-of-client").decode()
            is_known = self.headers["Authorization"] in (f"Basic {known}", None)
            self.send_response(200 if is_known else 401)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": token("ada")}).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token", asked
    server.shutdown()
    server.server_close()


def token(user, claim="sub", ends_in=600):
    now = int(time.time())
    claims = {"sub": "ada", claim: user, "iat": now, "exp": now + ends_in}
    return jwt.encode(claims, None, algorithm="none")


def test_a_client_logs_in_by_a_token(kafka, tokens):
    url, asked = tokens
    options = {"clientId": "penstock", "clientSecret": "secret-of-client", "scope": "topics"}
    check(kafka.guarded, {URL: url, "sasl.jaas.config": jaas(**options)})
    assert asked[0]["scope"] == ["topics"]
    named = {RETRIEVER: f"{JAVA}ClientCredentialsJwtRetriever", URL: url}
    keys = {f"{CLIENT}id": "penstock", f"{CLIENT}secret": "secret-of-client"}
    check(kafka.guarded, named | keys)
    with pytest.raises(AuthError):
        check(kafka.guarded, named | keys | {f"{CLIENT}secret": "wrong"})


def test_id_and_secret_are_url_encoded_where_the_key_says_so(kafka, tokens):
    url, asked = tokens
    keys = {URL: url, f"{CLIENT}id": "a b", f"{CLIENT}secret": "c:d/e"}
    for encodes, text in (("true", b"a+b:c%3Ad%2Fe"), ("false", b"a b:c:d/e")):
        with pytest.raises(AuthError):
            check(kafka.guarded, keys | {f"{OAUTH}header.urlencode": encodes})
        assert asked[-1]["login"] == f"Basic {base64.b64encode(text).decode()}"


def test_a_client_logs_in_by_an_assertion_that_it_signs(kafka, tokens, tmp_path):
    url, asked = tokens
    key = rsa.generate_private_key(65537, 2048)
    locked = BestAvailableEncryption(b"geheim")
    file, template = tmp_path / "key.pem", tmp_path / "template.json"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
    template.write_text(json.dumps({"header": {"kid": "7"}, "payload": {"team": "water"}}))
    assertion = {
        "algorithm": "RS256", "private.key.file": str(file), "private.key.passphrase": "geheim",
        "template.file": str(template), "claim.aud": "here", "claim.iss": "penstock",
        "claim.sub": "ada", "claim.exp.seconds": "120", "claim.nbf.seconds": "30",
        "claim.jti.include": "true",
    }  # fmt: skip
    keys = {f"{OAUTH}assertion.{name}": text for name, text in assertion.items()}
    keys |= {URL: url, RETRIEVER: f"{JAVA}JwtBearerJwtRetriever", f"{OAUTH}scope": "topics"}
    check(kafka.guarded, keys)
    assert asked[0]["scope"] == ["topics"]
    (signed,) = asked[0]["assertion"]
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = jwt.decode(signed, public, ["RS256"], audience="here", issuer="penstock")
    assert (claims["sub"], claims["team"]) == ("ada", "water")
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (120, 30)
    assert claims["jti"]
    assert jwt.get_unverified_header(signed)["kid"] == "7"
    (tmp_path / "assertion").write_text("made.before.hand")
    check(kafka.guarded, keys | {f"{OAUTH}assertion.file": str(tmp_path / "assertion")})
    assert asked[-1]["assertion"] == ["made.before.hand"]


def test_a_client_logs_in_by_the_token_of_a_file(kafka, tmp_path):
    file = tmp_path / "token of mine"
    file.write_text(token("ada") + "\n")
    keys = {URL: f"file://{urllib.parse.quote(str(file))}"}
    check(kafka.guarded, keys)
    file.write_text(token("grace", "upn"))
    other = {RETRIEVER: f"{JAVA}FileJwtRetriever", f"{OAUTH}sub.claim.name": "upn"}
    assert login(keys | other).settings()["oauth_cb"]("")[2] == "grace"
    for content in (b"not one", b"a.b.c", token("ada", ends_in=-1).encode(), b"\xff", b""):
        file.write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            check(kafka.guarded, keys)
        assert (caught.value.code, caught.value.config_path) == ("kafka.token", URL)
        assert content.decode("latin-1") not in str(caught.value) or not content


def test_rows_go_in_and_out_by_the_token_of_a_file(kafka, topic, tmp_path):
    (tmp_path / "token").write_text(token("ada"))
    at = {"bootstrap.servers": kafka.guarded, **BY_TOKEN, URL: f"file://{tmp_path}/token"}
    at |= {"value.converter.schemas.enable": "false", "key.converter": "string"}
    more = {"offsets.storage.topic": f"{topic}-offsets", "transactional.id.prefix": f"{topic}-"}
    with sink_task(KafkaSink, at | more | {"topic": topic}) as task:
        task.write([{"a": 1}], dataset="d")
    with source_task(KafkaSource, at | {"topics": topic}) as task:
        assert [row["a"] for row in task.rows(1)] == [1]


def test_a_file_of_a_token_must_be_in_reach(tmp_path):
    given = {"bootstrap.servers": "b:1", **BY_TOKEN, "reach.folders": str(tmp_path)}
    given["reach.hosts"] = "*"
    for keys, path in (
        ({URL: "file:///etc/passwd"}, URL),
        ({f"{OAUTH}assertion.private.key.file": "/etc/x", URL: "http://a", f"{CLIENT}id": "a"},
         f"{OAUTH}assertion.private.key.file"),
    ):  # fmt: skip
        _, errors = read_config(LoginConfig, given | keys)
        assert [(one.code, one.config_path) for one in errors] == [("reach.folder", path)]


@pytest.mark.parametrize(
    ("keys", "code", "path", "fix"),
    [
        ({RETRIEVER: "com.acme.Tokens"}, "config.invalid_value", RETRIEVER, "JwtBearer"),
        ({RETRIEVER: f"{JAVA}FileJwtRetriever"}, "config.conflict", URL, "file:///"),
        ({RETRIEVER: f"{JAVA}JwtBearerJwtRetriever"}, "config.missing",
         f"{OAUTH}assertion.private.key.file", "Set"),
        ({f"{OAUTH}assertion.claim.iss": "a", f"{CLIENT}id": "c"}, "config.conflict",
         f"{OAUTH}assertion.claim.iss", "JwtBearerJwtRetriever"),
        ({}, "config.missing", f"{CLIENT}id", "Set"),
        ({RETRIEVER: f"{JAVA}JwtBearerJwtRetriever", f"{OAUTH}assertion.private.key.file": "k",
          f"{OAUTH}assertion.algorithm": "HS256"}, "config.invalid_value",
         f"{OAUTH}assertion.algorithm", "RS256 or ES256"),
    ],
)  # fmt: skip
def test_what_would_be_another_login_is_refused(keys, code, path, fix):
    with pytest.raises(ConfigError) as caught:
        login({URL: "http://issuer"} | keys)
    assert (caught.value.code, caught.value.config_path) == (code, path)
    assert fix in caught.value.fix


def test_keys_that_do_nothing_say_why():
    keys = {
        URL: "http://issuer", f"{CLIENT}id": "c", f"{CLIENT}secret": "s",
        f"{OAUTH}jwt.validator.class": f"{JAVA}DefaultJwtValidator",
        f"{OAUTH}expected.audience": "a", f"{OAUTH}assertion.claim.sub": "s",
    }  # fmt: skip
    assert set(login(keys).unused_keys()) == {
        f"{OAUTH}jwt.validator.class", f"{OAUTH}expected.audience", f"{OAUTH}assertion.claim.sub",
    }  # fmt: skip
    bearer = {RETRIEVER: "JwtBearerJwtRetriever", f"{OAUTH}assertion.file": "/a"}
    told = login(keys | bearer).unused_keys()
    assert told[f"{CLIENT}id"] == f"`{OAUTH}assertion.file` has the whole assertion"
    assert f"{OAUTH}assertion.claim.sub" in told


def test_no_key_of_kafkas_clients_for_tokens_is_unknown():
    """Kafka 4.3.1's `SaslConfigs`."""
    names = [
        "jwt.retriever.class", "jwt.validator.class", "scope", "client.credentials.client.id",
        "client.credentials.client.secret", "assertion.algorithm", "assertion.claim.aud",
        "assertion.claim.exp.seconds", "assertion.claim.iss", "assertion.claim.jti.include",
        "assertion.claim.nbf.seconds", "assertion.claim.sub", "assertion.file",
        "assertion.private.key.file", "assertion.private.key.passphrase",
        "assertion.template.file", "scope.claim.name", "sub.claim.name", "token.endpoint.url",
        "jwks.endpoint.url", "jwks.endpoint.refresh.ms", "jwks.endpoint.retry.backoff.max.ms",
        "jwks.endpoint.retry.backoff.ms", "clock.skew.seconds", "expected.audience",
        "expected.issuer", "header.urlencode",
    ]  # fmt: skip
    keys = {f"{OAUTH}{name}": "" for name in names}
    given = {"bootstrap.servers": "b:1", **keys}
    told = parse_config(LoginConfig, given).unused_keys()
    assert not [name for name, why in told.items() if "no such key" in why]
