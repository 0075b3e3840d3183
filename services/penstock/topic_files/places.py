"""Which driver a place of topics has: a path, or `s3://bucket/prefix`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock.model.errors import ConfigError
from penstock.topic_files.folder import Folder
from penstock.topic_files.local import LocalFolder
from penstock.topic_files.s3_settings import S3Settings

_S3: Final = "s3://"
_FILE: Final = "file://"

# what a URL has to escape, Delta's library does not find
_PART: Final = r"(?!\.\.?(?:/|$))[\w.~=-]+"
_BUCKET: Final = re.compile(
    rf"s3://(?P<bucket>\w[\w.-]+)/?(?P<prefix>(?:{_PART}(?:/{_PART})*)?)/?", re.ASCII
)


def folder_of(place: str, s3: S3Settings | None = None) -> Folder:
    """Return the folder that a setting names.

    Raises:
        ConfigError: `topic.bad_place`, `topic.s3_not_installed`.
    """
    if place.startswith(_S3):
        return _s3_folder(place, s3 or S3Settings())
    if "://" in place and not place.startswith(_FILE):
        raise _bad_place(place, "only folders and S3 keep topics")
    path = Path(place.removeprefix(_FILE))
    if place.startswith(_FILE) and not path.is_absolute():
        raise _bad_place(place, "a file URL names no host, and an absolute path")
    return LocalFolder(path.absolute())


def folder_at(place: Mapping[str, Any]) -> Folder:
    """Return the folder that a ticket names (`Folder.place`)."""
    if "s3" in place:
        return _s3_folder(place["root"], S3Settings.from_ticket(place["s3"]))
    return LocalFolder(Path(place["root"]))


def _s3_folder(url: str, settings: S3Settings) -> Folder:
    match = _BUCKET.fullmatch(url)
    if match is None:
        raise _bad_place(url, "a bucket and a prefix have letters, digits, `.`, `_`, `-`, `~`, `=`")
    try:
        # only where it is used: an extra, and nothing that every executor should load
        from penstock.topic_files.s3 import S3Folder  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "topic.s3_not_installed",
            f"{url}: topics on S3 need a library that is not installed ({error.name})",
            fix="Install it on all workers and executors: pip install 'penstock[s3]'.",
            config_path="topics.dir",
        ) from error
    return S3Folder(match["bucket"], match["prefix"], settings)


def _bad_place(place: str, why: str) -> ConfigError:
    return ConfigError(
        "topic.bad_place",
        f"topics cannot be kept at {place}: {why}",
        fix="Give the path of a folder, or s3://bucket/prefix.",
        config_path="topics.dir",
    )
