"""Opens the folder of topics at a path, or at `s3://bucket/prefix`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock.model.errors import ConfigError
from penstock.topic_files.folder import Folder, S3Settings
from penstock.topic_files.local_folder import LocalFolder

_S3: Final = "s3://"
_FILE: Final = "file://"

# Delta's library does not find paths with characters that a URL has to escape
_PART: Final = r"(?!\.\.?(?:/|$))[\w.~=-]+"
_BUCKET: Final = re.compile(
    rf"s3://(?P<bucket>\w[\w.-]+)/?(?P<prefix>(?:{_PART}(?:/{_PART})*)?)/?", re.ASCII
)


def open_folder(location: str, s3: S3Settings | None = None) -> Folder:
    """Return the folder at a location, the value of `topics.dir`.

    Raises:
        ConfigError: `topic.bad_place`, `topic.s3_not_installed`.
    """
    if location.startswith(_S3):
        return _s3_folder(location, s3 or S3Settings())
    if "://" in location and not location.startswith(_FILE):
        raise _invalid_location(location, "only folders and S3 can keep topics")
    path = Path(location.removeprefix(_FILE))
    if location.startswith(_FILE) and not path.is_absolute():
        raise _invalid_location(location, "a file URL must have no host and an absolute path")
    return LocalFolder(path.absolute())


def folder_from_ticket(ticket: Mapping[str, Any]) -> Folder:
    """Return the folder that a ticket names (`Folder.to_ticket`)."""
    if "s3" in ticket:
        return _s3_folder(ticket["root"], S3Settings.from_ticket(ticket["s3"]))
    return LocalFolder(Path(ticket["root"]))


def _s3_folder(url: str, settings: S3Settings) -> Folder:
    match = _BUCKET.fullmatch(url)
    if match is None:
        raise _invalid_location(
            url, "a bucket and a prefix may have letters, digits, `.`, `_`, `-`, `~`, `=`"
        )
    try:
        # imported on use: an extra, which executors without S3 need not load
        from penstock.topic_files.s3_folder import S3Folder  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "topic.s3_not_installed",
            f"{url}: topics on S3 need a library that is not installed ({error.name})",
            fix="Install it on all workers and executors: pip install 'penstock[s3]'.",
            config_path="topics.dir",
        ) from error
    return S3Folder(match["bucket"], match["prefix"], settings)


def _invalid_location(location: str, why: str) -> ConfigError:
    return ConfigError(
        "topic.bad_place",
        f"topics cannot be kept at {location}: {why}",
        fix="Give the path of a folder, or s3://bucket/prefix.",
        config_path="topics.dir",
    )
