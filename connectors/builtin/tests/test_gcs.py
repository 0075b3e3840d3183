"""Google's store: it is asked with tokens, and everything else is as in `test_s3.py`.

Behind the token stands the real store of the tests: a front lets in who has one, and signs.
"""

import json
import urllib.error
import urllib.request
from urllib.parse import quote, urlencode

import jwt
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from penstock_builtin.file_sink import FileSink, FileSinkConfig
from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_builtin.places import google_tokens, s3_keys, s3_store
from penstock_connector import AuthError, ConfigError, RetriableError
from support.s3 import ACCESS, SECRET, S3Server
from support.web import DEADLINE, Reply, WebServer

PASSED_ON = ("Content-MD5", "Content-Type", "If-Match", "Range")


@pytest.fixture(scope="module")
def server():
    with S3Server() as server:
        yield server


@pytest.fixture(scope="module")
def private():
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return made.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


@pytest.fixture
def lender():
    """Gives tokens."""
    web = WebServer()
    web.answer = lambda asked: Reply({"access_token": "a-token", "expires_in": 3600})
    yield web
    web.close()


@pytest.fixture
def front(server):
    """Lets in who has the token."""
    web = WebServer()

    def pass_on(asked):
        if asked.headers["Authorization"] != "Bearer a-token":
            return Reply(b"<Error><Code>AccessDenied</Code></Error>", status=403)
        query = f"?{urlencode(asked.query, quote_via=quote)}" if asked.query else ""
        headers = {n: asked.headers[n] for n in PASSED_ON if asked.headers[n]}
        url = f"{server.endpoint}{asked.path}{query}"
        request = AWSRequest(asked.method, url, headers, asked.body)
        S3SigV4Auth(Credentials(ACCESS, SECRET), "s3", "us-east-1").add_auth(request)
        sent = urllib.request.Request(
            url, asked.body or None, dict(request.headers), method=asked.method
        )
        try:
            with urllib.request.urlopen(sent, timeout=DEADLINE) as answer:
                kept = {n: v for n, v in answer.headers.items() if n in {"ETag", "Etag"}}
                return Reply(answer.read(), answer.status, kept)
        except urllib.error.HTTPError as error:
            return Reply(error.read(), error.code)

    web.answer = pass_on
    yield web
    web.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch, lender):
    monkeypatch.setattr(s3_store, "_WITHIN", 0.3)
    monkeypatch.setattr(s3_keys, "INSTANCE", f"{lender.url}/")
    google_tokens.tokens_of.cache_clear()


def key_of(lender, private, **more):
    told = {
        "type": "service_account", "client_email": "me@example", "private_key": private,
        "token_uri": f"{lender.url}/token",
    }  # fmt: skip
    return json.dumps(told | more)


def test_rows_are_written_and_read_exactly_once(front, writing, reading):
    keys = {"gcs_endpoint": front.url, "gcs_credentials": "instance", "format": "jsonl"}
    sink = writing(FileSinkConfig(path="gs://topics/gcs", **keys), "g-0", 1)
    rows = [{"n": n, "text": "x" * 1000} for n in range(6000)]
    sink.begin()
    state = sink.prepare(sink.stage(rows))
    source = FileSourceConfig(path=("gs://topics/gcs/part-",), tail=False, **keys)
    assert reading(source).drain() == []
    again = FileSink()
    again.init(FileSinkConfig(path="gs://topics/gcs", **keys))
    again.connect("g-0", 2)
    again.commit(sink.txn, 2, state)
    sink.sink.commit(sink.txn, 1, state)
    again.close()
    found = reading(source)
    assert found.drain() == rows
    assert all(str(p.key["file"]).startswith("gs://topics/gcs/part-") for p in found.partitions)


def test_a_machine_asks_its_metadata_once(front, lender):
    config = FileSourceConfig(
        path=("gs://topics/x/",), gcs_endpoint=front.url, gcs_credentials="instance"
    )
    FileSource.check(config)
    FileSource.check(config)
    (asked,) = lender.asked
    assert asked.headers["Metadata-Flavor"] == "Google"
    assert asked.path == "/computeMetadata/v1/instance/service-accounts/default/token"


def test_a_service_account_signs_for_its_token(front, lender, private):
    config = FileSourceConfig(
        path=("gs://topics/x/",), gcs_endpoint=front.url, gcs_key=key_of(lender, private)
    )
    FileSource.check(config)
    (asked,) = lender.asked
    form = dict(pair.split("=") for pair in asked.body.decode().split("&"))
    public = serialization.load_pem_private_key(private.encode(), None).public_key()
    claims = jwt.decode(form["assertion"], public, ["RS256"], audience=f"{lender.url}/token")
    assert claims["iss"] == "me@example"
    assert claims["scope"].endswith("devstorage.read_write")


def test_a_token_that_ends_is_replaced(front, lender, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(google_tokens.time, "monotonic", lambda: now[0])
    tokens = google_tokens.GoogleTokens(s3_keys.S3Role("google-instance", url=f"{lender.url}/"))
    lender.answer = [
        Reply({"access_token": "first", "expires_in": 3600}),
        Reply({"access_token": "second", "expires_in": 3600}),
    ]
    now[0] = 1.0
    assert tokens.valid() == tokens.valid() == "first"
    now[0] = 3302.0  # still good for some minutes, but not for long
    assert tokens.valid() == "second"


def test_nobody_asks_without_a_key(front):
    with pytest.raises(AuthError):
        FileSource.check(FileSourceConfig(path=("gs://topics/x/",), gcs_endpoint=front.url))
    assert front.asked[0].headers["Authorization"] is None


@pytest.mark.parametrize(
    ("reply", "kind", "code"),
    [
        (Reply("no account", status=404), AuthError, "s3.denied"),
        (Reply(status=503), RetriableError, "s3.unreachable"),
        (Reply("<html>"), AuthError, "s3.denied"),
        (Reply({"other": 1}), AuthError, "s3.denied"),
        (Reply(b"x" * (2 << 20)), AuthError, "s3.denied"),
        (Reply(broken="drop"), RetriableError, "s3.unreachable"),
        (Reply(status=302, headers={"Location": "http://127.0.0.1:1/"}), AuthError, "s3.denied"),
    ],
    ids=["404", "503", "html", "other", "large", "drop", "redirect"],
)
def test_who_gives_no_token_is_told(front, lender, private, reply, kind, code):
    lender.answer = lambda asked: reply
    config = FileSourceConfig(
        path=("gs://topics/x/",), gcs_endpoint=front.url, gcs_key=key_of(lender, private)
    )
    with pytest.raises(kind) as caught:
        FileSource.check(config)
    assert caught.value.code == code
    assert front.asked == []
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    ["no json", "{}", '{"type": "authorized_user"}', "[]"],
    ids=["text", "{}", "user", "[]"],
)
def test_what_is_no_key_is_refused(front, lender, wrong):
    config = FileSourceConfig(path=("gs://topics/x/",), gcs_endpoint=front.url, gcs_key=wrong)
    with pytest.raises(ConfigError) as caught:
        FileSource.check(config)
    assert caught.value.config_path == "gcs.key"


def test_a_key_without_a_private_one_is_refused(front, lender):
    config = FileSourceConfig(
        path=("gs://topics/x/",), gcs_endpoint=front.url, gcs_key=key_of(lender, "hush")
    )
    with pytest.raises(AuthError, match="private key") as caught:
        FileSource.check(config)
    assert "hush" not in str(caught.value)
    assert "hush" not in repr(config.access("gs://"))


def test_a_key_and_a_role_contradict_each_other(front):
    config = FileSourceConfig(path=("gs://topics/x/",), gcs_key="{}", gcs_credentials="instance")
    with pytest.raises(ConfigError) as caught:
        FileSource.check(config)
    assert caught.value.code == "config.contradiction"


@pytest.mark.parametrize("url", ["az://c/x", "abfss://c@a.dfs.core.windows.net/x"])
def test_other_stores_are_refused_by_name(url):
    scheme = url.partition("/")[0]
    for made in (
        lambda: FileSourceConfig(path=(url,)),
        lambda: FileSinkConfig(path=url),
        lambda: FileSinkConfig(file=url),
    ):
        with pytest.raises(ConfigError, match=scheme) as caught:
            made()
        assert caught.value.code == "config.invalid_value"
