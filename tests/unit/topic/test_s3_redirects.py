"""A store that leads to another server: that one gets neither rows nor credentials."""

import obstore
import pytest
from obstore.store import S3Store

from penstock.telemetry.redaction import Secret
from penstock.topic_files.folder import S3Settings
from penstock.topic_files.s3_folder import S3Folder
from support.web import Reply, WebServer


@pytest.fixture
def servers():
    """A store, and another server."""
    both = WebServer(), WebServer(address="127.0.0.2")
    yield both
    for server in both:
        server.close()


def test_a_store_that_leads_elsewhere_sends_no_rows_and_no_credentials_there(servers):
    """The library follows a redirect of a GET, and has no word against it."""
    store, other = servers
    other.answer = lambda asked: Reply(b"")
    folder = S3Folder("b", "p", S3Settings(store.url, "us-east-1", Secret("k"), Secret("s")))
    for status in (301, 302, 303, 307, 308):
        headers = {"Location": other.url + "/x"}
        store.answer = lambda asked, s=status, h=headers: Reply(status=s, headers=h)
        with pytest.raises(OSError, match="S3 error"):
            folder.put_new("x", b"rows")
        folder.read("x")
    assert {asked.method for asked in store.asked} == {"GET", "PUT"}
    assert all(asked.headers["Authorization"] for asked in store.asked)
    assert len(other.asked) >= 5
    assert {asked.method for asked in other.asked} == {"GET"}
    assert {asked.headers["Authorization"] for asked in other.asked} == {None}


def test_a_put_and_credentials_are_seen_where_they_arrive(servers):
    """The twin: a client of the other server itself."""
    _, other = servers
    other.answer = lambda asked: Reply(b"")
    client = S3Store(
        "b",
        config={
            "aws_endpoint_url": other.url, "aws_region": "us-east-1",
            "aws_access_key_id": "k", "aws_secret_access_key": "s",
        },
        client_options={"allow_http": True},
    )  # fmt: skip
    with pytest.raises(obstore.exceptions.BaseError):  # its answer has no ETag
        obstore.put(client, "x", b"rows")
    assert other.asked[0].method == "PUT"
    assert other.asked[0].headers["Authorization"]
