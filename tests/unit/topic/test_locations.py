"""Where topics are: what a setting names, and what travels to the executors."""

import json
import stat
import sys
from pathlib import Path

import pytest

from penstock.model.errors import ConfigError
from penstock.telemetry.redaction import Secret
from penstock.topic_files.folder import S3Settings
from penstock.topic_files.local_folder import LocalFolder
from penstock.topic_files.locations import folder_from_ticket, open_folder
from penstock.topic_files.s3_folder import S3Folder

KEYS = S3Settings("http://store:9000", "eu-1", Secret("access-key"), Secret("secret-key"))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("/data/topics", "/data/topics"),
        ("relative", str(Path("relative").absolute())),
        ("file:///data/topics", "/data/topics"),
        ("s3://bucket", "s3://bucket/"),
        ("s3://bucket/a/b_c-d.e~f=g/", "s3://bucket/a/b_c-d.e~f=g"),
    ],
)
def test_a_setting_names_a_folder_or_a_prefix_of_a_bucket(text, url):
    assert open_folder(text).url == url


@pytest.mark.parametrize(
    "text",
    [
        "gs://b/x",
        "file://host/x",
        "s3://",
        "s3:///x",
        "s3://bucket//x",
        "s3://bucket/../x",
        "s3://bucket/a b",
    ],
)
def test_what_keeps_no_topics_is_refused_with_what_does(text):
    with pytest.raises(ConfigError, match="s3://bucket/prefix") as caught:
        open_folder(text)
    assert caught.value.code == "topic.bad_place"


def test_a_folder_in_a_bucket_has_a_key_in_any_prefix():
    assert (
        open_folder("s3://bucket").subfolder("t").subfolder("_delta_log").url
        == "s3://bucket/t/_delta_log"
    )


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        (open_folder("/data").subfolder("t"), LocalFolder),
        (open_folder("s3://bucket/p", KEYS).subfolder("t"), S3Folder),
    ],
)
def test_an_executor_opens_what_its_ticket_names(folder, kind):
    opened = folder_from_ticket(json.loads(json.dumps(folder.to_ticket())))
    assert isinstance(opened, kind)
    assert opened.url == folder.url
    assert opened.delta_options == folder.delta_options


def test_a_ticket_says_only_what_was_set(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-machine")
    assert open_folder("s3://bucket/p").to_ticket() == {"root": "s3://bucket/p", "s3": {}}


def test_the_standard_variables_name_the_store(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://elsewhere:1")
    monkeypatch.setenv("AWS_REGION", "eu-2")
    assert S3Settings().options == {
        "aws_endpoint_url": "http://elsewhere:1",
        "aws_region": "eu-2",
    }
    assert S3Settings().is_plain_http
    assert KEYS.endpoint_url == "http://store:9000"


def test_a_library_that_is_missing_is_named_with_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "penstock.topic_files.s3_folder", None)
    with pytest.raises(ConfigError, match=r"pip install 'penstock\[s3\]'") as caught:
        open_folder("s3://bucket/p")
    assert caught.value.code == "topic.s3_not_installed"


def test_topics_are_for_their_owner_alone_unless_their_folder_was_there(tmp_path):
    made, kept = LocalFolder(tmp_path / "made"), LocalFolder(tmp_path / "kept")
    kept.path.mkdir(mode=0o755)
    for folder in (made, kept):
        folder.check_usable()
    modes = [stat.S_IMODE(folder.path.stat().st_mode) for folder in (made, kept)]
    assert modes == [0o700, 0o755]
