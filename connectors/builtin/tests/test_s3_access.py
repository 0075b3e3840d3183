"""Who asks an object store, and where it may not lead: roles, redirects, answers without end.

The store here answers what a test says, so that it can lie; `test_s3.py` has a real one.
"""

import json
import re
import sys
from datetime import UTC, datetime, timedelta

import pytest

from penstock_builtin.file_sink import FileSink, FileSinkConfig
from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_builtin.places import s3_keys, s3_session, s3_store
from penstock_builtin.places.s3 import open_store
from penstock_builtin.places.s3_keys import S3Url
from penstock_connector import AuthError, ConfigError, RetriableError
from support.web import Reply, WebServer

LISTED = (
    b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>x/a</Key><Size>2</Size>"
    b"<ETag>&quot;1&quot;</ETag></Contents></ListBucketResult>"
)
BEGUN = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
KEY = {"s3_access_key": "id", "s3_secret_key": "secret"}


def answer(asked):
    """What a store says to a list, to the begin of an upload, and to all else."""
    return Reply(LISTED if asked.method == "GET" else BEGUN if asked.method == "POST" else b"")


@pytest.fixture
def web():
    server = WebServer()
    server.answer = answer
    yield server
    server.close()


@pytest.fixture
def lender():
    """A server that gives keys."""
    server = WebServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """What fails is tried again, but not for long; no test sees the session of another."""
    monkeypatch.setattr(s3_store, "_WITHIN", 0.3)
    s3_session._session.cache_clear()


def config(web, **more):
    return FileSourceConfig(path=("s3://bucket/x/",), s3_endpoint=web.url, **more)


def store_of(made):
    return open_store(S3Url("s3", "bucket", ""), made.access("s3://"))


def asked_as(web):
    """The id of the key, and the token, of every request that came."""
    return [
        (
            (re.search(r"Credential=(\w+)/", asked.headers["Authorization"] or "") or [""] * 2)[1],
            asked.headers["X-Amz-Security-Token"],
        )
        for asked in web.asked
    ]


def lent(name, lasts=timedelta(hours=6)):
    """A key, as metadata services write it."""
    ends = (datetime.now(UTC) + lasts).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "Code": "Success", "AccessKeyId": name, "SecretAccessKey": "s", "Token": f"{name}-token",
        "Expiration": ends,
    }  # fmt: skip


# ── who asks ─────────────────────────────────────────────────────────────────────────────────────


def test_a_key_that_is_set_asks_and_without_one_nobody_does(web):
    FileSource.check(config(web, **KEY, s3_session_token="t"))
    FileSource.check(config(web))
    assert asked_as(web) == [("id", "t"), ("", None)]


def test_a_token_of_the_pod_is_changed_for_a_key(web, lender, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-jwt")
    key = "".join(
        f"<{n}>{v}</{n}>"
        for n, v in {
            "AccessKeyId": "role", "SecretAccessKey": "s", "SessionToken": "role-token",
            "Expiration": "2999-01-01T00:00:00Z",
        }.items()
    )  # fmt: skip
    lender.answer = lambda asked: Reply(
        f"<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>{key}"
        "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
    )
    role = {
        "s3_credentials": "web-identity", "s3_token_file": str(token),
        "s3_role_arn": "arn:aws:iam::123456789012:role/r", "s3_sts_endpoint": lender.url,
    }  # fmt: skip
    FileSource.check(config(web, **role))
    FileSource.check(config(web, **role))
    assert asked_as(web) == [("role", "role-token")] * 2
    (asked,) = lender.asked  # the key is kept while it is good
    assert asked.headers["Authorization"] is None
    assert b"WebIdentityToken=a-jwt" in asked.body
    assert b"role%2Fr" in asked.body


def test_a_role_that_is_refused_is_told(web, lender, tmp_path):
    token = tmp_path / "token"
    token.write_text("hush")
    lender.answer = lambda asked: Reply(
        "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error>"
        "</ErrorResponse>",
        status=403,
    )
    role = {
        "s3_credentials": "web-identity", "s3_token_file": str(token),
        "s3_role_arn": "arn:aws:iam::123456789012:role/r", "s3_sts_endpoint": lender.url,
    }  # fmt: skip
    with pytest.raises(AuthError, match="not you") as caught:
        FileSource.check(config(web, **role))
    assert (caught.value.code, web.asked) == ("s3.denied", [])
    assert "hush" not in str(caught.value)
    with pytest.raises(AuthError, match="No such file"):
        FileSource.check(config(web, **(role | {"s3_token_file": str(tmp_path / "none")})))


def test_a_container_gets_its_key_and_another_one_when_that_ends(web, lender, tmp_path):
    token = tmp_path / "token"
    token.write_text("pod")
    lender.answer = [Reply(lent("first", timedelta(seconds=30))), Reply(lent("second"))]
    role = {
        "s3_credentials": "container", "s3_container_url": f"{lender.url}/creds",
        "s3_token_file": str(token),
    }  # fmt: skip
    FileSource.check(config(web, **role))
    FileSource.check(config(web, **role))
    assert {asked.headers["Authorization"] for asked in lender.asked} == {"pod"}
    assert asked_as(web)[-1] == ("second", "second-token")


def test_no_other_host_is_asked_for_the_key_of_a_container(web, monkeypatch):
    role = {"s3_credentials": "container", "s3_container_url": "http://192.0.2.1/creds"}
    with pytest.raises(ConfigError, match="Unsupported host"):
        FileSource.check(config(web, **role))
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x")
    made = config(web, s3_credentials="container").access("s3://")
    assert made.role.url == "http://169.254.170.2/v2/x"


def test_a_machine_gets_its_key(web, lender, monkeypatch):
    monkeypatch.setattr(s3_keys, "INSTANCE", f"{lender.url}/")

    def metadata(asked):
        if asked.method == "PUT":
            return Reply("session")
        return Reply(json.dumps(lent("machine")) if asked.path.endswith("/r") else "r")

    lender.answer = metadata
    FileSource.check(config(web, s3_credentials="instance"))
    assert asked_as(web) == [("machine", "machine-token")]
    assert lender.asked[-1].headers["x-aws-ec2-metadata-token"] == "session"
    s3_session._session.cache_clear()
    lender.answer = lambda asked: Reply(status=404)
    with pytest.raises(AuthError) as caught:
        FileSource.check(config(web, s3_credentials="instance"))
    assert caught.value.code == "s3.denied"


def test_a_profile_is_one_of_the_worker(web, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[team]\naws_access_key_id = profiled\naws_secret_access_key = s\n"
    )
    FileSource.check(config(web, s3_credentials="profile", s3_profile="team"))
    assert asked_as(web) == [("profiled", None)]
    for wrong in ("nobody", ""):
        with pytest.raises(AuthError):
            FileSource.check(config(web, s3_credentials="profile", s3_profile=wrong))


def test_nothing_of_the_machine_is_used_that_was_not_named(web, tmp_path, monkeypatch):
    """Files and variables that the library would find by itself."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = found\naws_secret_access_key = s\n"
    )
    (tmp_path / ".aws" / "config").write_text("[default]\ns3 =\n  addressing_style = virtual\n")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    FileSource.check(config(web))
    assert asked_as(web) == [("", None)]
    assert web.asked[0].path == "/bucket"


@pytest.mark.parametrize(
    ("keys", "code", "path"),
    [
        ({"s3_credentials": "instance", **KEY}, "config.contradiction", "s3.credentials"),
        ({"s3_profile": "dev"}, "config.contradiction", "s3.profile"),
        (
            {"s3_credentials": "instance", "s3_token_file": "/t"},
            "config.contradiction",
            "s3.token.file",
        ),
        ({"s3_credentials": "web-identity"}, "config.missing", "s3.role.arn"),
        ({"s3_credentials": "web-identity", "s3_role_arn": "r"}, "config.missing", "s3.token.file"),
        ({"s3_credentials": "container"}, "config.missing", "s3.container.url"),
        ({"s3_credentials": "container", "s3_container_url": "x"}, "config.invalid_value",
         "s3.container.url"),
        ({"s3_access_key": "id"}, "config.missing", "s3.secret.key"),
    ],
)  # fmt: skip
def test_what_cannot_mean_anything_is_refused(web, keys, code, path):
    with pytest.raises(ConfigError) as caught:
        FileSource.check(config(web, **keys))
    assert (caught.value.code, caught.value.config_path) == (code, path)
    assert web.asked == []


def test_a_library_that_is_not_installed_is_told(web, monkeypatch):
    monkeypatch.setitem(sys.modules, "penstock_builtin.places.s3_store", None)
    with pytest.raises(ConfigError, match=r"penstock\[s3\]") as caught:
        FileSource.check(config(web))
    assert caught.value.code == "s3.not_installed"


def test_keys_are_never_printed(web):
    printed = repr(config(web, **KEY, s3_session_token="lent").access("s3://"))
    assert "secret" not in printed
    assert "lent" not in printed


# ── where it may not lead ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("region", [{}, {"x-amz-bucket-region": "127.0.0.1/"}])
def test_a_store_that_leads_elsewhere_is_not_followed(web, lender, status, region):
    lender.answer = answer
    headers = {"Location": f"{lender.url}/bucket", **region}
    web.answer = lambda asked: Reply(status=status, headers=headers)
    for connector, made in (
        (FileSource, config(web, **KEY)),
        (FileSink, FileSinkConfig(path="s3://bucket/x", s3_endpoint=web.url, **KEY)),
    ):
        # the library stumbles over a 303, and does not follow it either
        with pytest.raises(Exception, match=r"s3\.(refused|region|unreachable)"):
            connector.check(made)
    assert web.asked
    assert lender.asked == []
    FileSource.check(config(lender, **KEY))  # the twin: it would have answered
    assert len(lender.asked) == 1


def test_a_request_to_another_host_is_not_sent(web, lender, monkeypatch):
    """Whatever the library thinks of: here, a store whose host it takes for another."""
    store = store_of(config(web, **KEY))
    store._connection._transport._hosts = frozenset({"localhost:1"})
    with pytest.raises(ConfigError) as caught:
        store.put("x/a", b"rows")
    assert caught.value.code == "s3.region"
    assert web.asked == []
    store.close()


def test_an_answer_without_end_is_left(web, monkeypatch):
    monkeypatch.setattr(s3_session, "_ANSWER_MOST", 1000)
    web.answer = lambda asked: Reply(LISTED + b" " * 2000)
    with pytest.raises(RetriableError, match="too long") as caught:
        FileSource.check(config(web))
    assert caught.value.code == "s3.unreachable"


def test_an_answer_that_is_cut_off_is_asked_for_again(web):
    web.answer = [Reply(LISTED[:-5], cut=5), Reply(LISTED)]
    FileSource.check(config(web))
    assert len(web.asked) == 2


@pytest.mark.parametrize("body", [b"<html>", b"no store", b"{}"])
def test_what_is_no_store_is_told(web, body):
    web.answer = lambda asked: Reply(body)
    with pytest.raises(RetriableError) as caught:
        FileSource.check(config(web))
    assert caught.value.code == "s3.unavailable"


def test_entities_that_grow_are_not_unfolded(web):
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 30}">' for n in range(6))
    web.answer = lambda asked: Reply(
        f'<!DOCTYPE x [<!ENTITY e0 "{"x" * 100}">{entities}]><ListBucketResult><Contents><Key>'
        "&e6;</Key></Contents></ListBucketResult>"
    )
    with pytest.raises(RetriableError) as caught:
        FileSource.check(config(web))
    assert caught.value.code == "s3.unavailable"


def test_the_end_of_an_upload_that_fails_late_is_not_taken_for_done(web):
    """A store begins to answer 200, and then says in the body that it failed."""
    store = store_of(config(web, **KEY))
    broken = Reply(b"<Error><Code>InternalError</Code></Error>")
    done = Reply(b"<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>")
    web.answer = [broken, done]
    assert store.complete("x/a", "u", ["1"])
    web.answer = [broken]
    with pytest.raises(RetriableError) as caught:
        store.complete("x/a", "u", ["1"])
    assert caught.value.code == "s3.unavailable"
    web.answer = [Reply(b"<Error><Code>NoSuchUpload</Code></Error>")]
    assert not store.complete("x/a", "u", ["1"])
    store.close()
