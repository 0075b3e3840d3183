"""What only an object store can do to us: refuse, hang, be away, pass over conditions."""

import uuid
from contextlib import contextmanager
from datetime import timedelta

import obstore
import pytest

from penstock.model.errors import AuthError, ConfigError, PenstockError, RetriableError
from penstock.telemetry.redaction import Secret
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files import s3_folder
from penstock.topic_files.folder import S3Settings
from penstock.topic_files.locations import open_folder
from support.s3 import ACCESS, SECRET
from unit.topic.producer_consumer import Producer, consume, rows, run


@pytest.fixture
def text():
    """A place of its own."""
    return f"s3://topics/{uuid.uuid4().hex[:12]}"


@contextmanager
def impatience():
    """Give requests three seconds; clients are made anew for it, and afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(s3_folder, "_REQUEST_TIMEOUT", timedelta(seconds=3))
        s3_folder._store_of.cache_clear()
        yield
    s3_folder._store_of.cache_clear()


def refusal(folder):
    """Return how topics end that cannot be kept in a folder."""

    async def story():
        async with EmbeddedTopics(folder):
            pass

    with pytest.raises(PenstockError) as caught:
        run(story())
    assert SECRET not in str(caught.value)
    assert "Debug" not in str(caught.value)  # the library's dump of the request
    return caught.value


@pytest.mark.parametrize("access", [ACCESS, "nobody"])
def test_credentials_that_are_refused_are_told(s3_server, text, access):
    error = refusal(open_folder(text, s3_server.settings(access, "wrong-secret")))
    assert isinstance(error, AuthError)
    assert error.code == "topic.store_denied"
    assert s3_server.endpoint in str(error)


def test_a_bucket_that_is_not_there_is_told(s3_server):
    error = refusal(open_folder("s3://nowhere/x", s3_server.settings()))
    assert isinstance(error, ConfigError)
    assert error.code == "topic.no_bucket"


def test_a_store_that_is_away_is_told_with_its_address(text):
    # with keys: without them the library asks the machine for its role
    settings = S3Settings("http://127.0.0.1:9", "", Secret(ACCESS), Secret(SECRET))
    with impatience():
        error = refusal(open_folder(text, settings))
    assert isinstance(error, RetriableError)
    assert error.code == "topic.store_unreachable"
    assert "http://127.0.0.1:9" in str(error)


def test_a_store_that_passes_over_the_condition_is_refused(s3_server, text, monkeypatch):
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda *a, mode, **how: put(*a, mode="overwrite", **how))
    assert refusal(open_folder(text, s3_server.settings())).code == "topic.store_unconditional"


def test_a_store_that_hangs_ends_a_commit_and_the_next_try_succeeds(s3_server, text):
    async def story():
        async with EmbeddedTopics(open_folder(text, s3_server.settings())) as topics:
            producer = await Producer(topics).open()
            await producer.prepare(1, rows(0, 3))
            s3_server.pause()
            try:
                with impatience(), pytest.raises(RetriableError) as caught:
                    await producer.stream.commit(1)
            finally:
                s3_server.resume()
            await producer.stream.commit(1)
            return caught.value.code, await consume(topics, 3)

    code, got = run(story())
    assert code == "topic.io_failed"
    assert got.ids == [0, 1, 2]


def test_no_secret_is_printed(s3_server, text):
    settings = s3_server.settings()
    folder = open_folder(text, settings)
    shown = f"{settings!r} {folder!r} {folder.subfolder('t')!r} {folder.url}"
    assert SECRET not in shown
    assert ACCESS not in shown
