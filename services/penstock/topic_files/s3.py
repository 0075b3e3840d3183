"""A folder of an S3-compatible store: keys below a prefix of a bucket.

A version is put by a PUT with `If-None-Match: *`, which the store refuses where the key is: the
only thing that commits of several processes agree by. Stores that pass over the condition exist, so
it is tried out at start. A PUT that was answered is durable, and seen by every later GET and LIST.

A PUT whose answer was lost may have happened: the library tries again and is told that the key is
there. So "it is there" never means that it is another's; whoever commits looks what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from penstock.model import faults
from penstock.model.errors import AuthError, ConfigError, PenstockError, RetriableError
from penstock.topic_files.folder import FileInfo
from penstock.topic_files.s3_objects import AHEAD, Ranges, Upload, in_order
from penstock.topic_files.s3_settings import S3Settings

if TYPE_CHECKING:  # it is not there at run time
    from obstore.store import S3Config

WHOLE: Final = 4 << 20
"""Bytes of the largest file that is read at once. Larger ones are read row group by row group: a
compacted file is 64 MiB, and a slot wants 16 of them."""

PROBE: Final = ".penstock-conditional-put"
"""The key that shows whether the store heeds the condition."""

_CONNECT: Final = timedelta(seconds=5)
_REQUEST: Final = timedelta(seconds=20)
"""Time of one request, which moves 8 MiB at most, and after which none is tried again. Shorter
fails on a slow network; longer lets a store that hangs hold a task for longer than its commit
may take."""

_RETRIES: Final = 4


class S3Folder:
    """Keys of a bucket below a prefix."""

    def __init__(self, bucket: str, prefix: str, settings: S3Settings) -> None:
        """`prefix` has no slash at its ends; it may be empty."""
        self._bucket, self._prefix, self._settings = bucket, prefix, settings

    def __repr__(self) -> str:
        return f"S3Folder({self.url!r})"

    @property
    def url(self) -> str:
        """The URL."""
        return f"s3://{self._bucket}/{self._prefix}"

    @property
    def delta_options(self) -> dict[str, str] | None:
        """What Delta's library needs."""
        options = {key.upper(): value for key, value in self._settings.options.items()}
        return options | ({"AWS_ALLOW_HTTP": "true"} if self._settings.plain_http else {})

    def place(self) -> dict[str, Any]:
        """Return the URL and the settings."""
        return {"root": self.url, "s3": self._settings.to_ticket()}

    def at(self, name: str) -> S3Folder:
        """Return a folder in this one."""
        return S3Folder(self._bucket, self._key(name), self._settings)

    def ready(self) -> None:
        """Try out access and the condition."""
        with self._coded():
            # whoever put it once is told so from then on, which shows it as well
            if self._put(PROBE, b"", "create") and self._put(PROBE, b"", "create"):
                raise ConfigError(
                    "topic.store_unconditional",
                    f"{self.url}: the store takes a PUT with `If-None-Match: *` for a key that is "
                    "there: commits of two workers would overwrite each other",
                    fix="Use a store that heeds the condition (Amazon S3 does), or a folder.",
                    config_path="topics.dir",
                )

    def make(self) -> None:
        """Nothing has to be made: a folder is there when a key is."""

    def put_new(self, name: str, content: bytes) -> bool:
        """Write a file unless it is there."""
        broken = faults.hit("topic.put_condition")
        return self._put(name, content, "overwrite" if broken else "create")

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        with _told():
            return obstore.get(self._store, self._key(name)).bytes().to_bytes()

    def read_run(self, names: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents of files up to the first that is not there: the first alone, which is
        the rule, then more and more at once.
        """
        left, window = iter(names), 1
        while batch := list(islice(left, window)):
            for content in in_order(self._found, batch):
                if content is None:
                    return
                yield content
            window = min(2 * window, AHEAD)

    def sizes(self, names: Iterable[str]) -> list[int | None]:
        """Return the bytes of files."""
        return list(in_order(self._size, names))

    def files(self, begin: str = "") -> Iterator[FileInfo]:
        """Yield the files whose names begin so."""
        with _told():
            for found in self._listed(begin):
                name = found["path"].removeprefix(f"{self._prefix}/")
                if name.startswith(begin) and "/" not in name:
                    yield FileInfo(name, found["size"], found["last_modified"].timestamp())
                elif begin and name > begin:
                    return

    def folders(self) -> list[str]:
        """Return the names of the folders in this one."""
        with _told():
            found = obstore.list_with_delimiter(self._store, self._prefix or None)
        return sorted(prefix.rpartition("/")[2] for prefix in found["common_prefixes"])

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, a thousand a request."""
        keys = [self._key(name) for name in names]
        with _told():
            if keys:
                obstore.delete(self._store, keys)

    def create(self, name: str) -> Upload:
        """Begin a file."""
        return Upload(self._store, self._key(name), _told)

    def opened(self, files: Iterable[tuple[str, int]]) -> Iterator[pa.NativeFile]:
        """Yield files; some are fetched ahead, because each costs the way to the store and back."""
        return in_order(self._opened, files)

    def sync(self, names: Iterable[str] = ()) -> None:
        """What was answered is durable."""

    @property
    def _store(self) -> S3Store:
        # made when it is first used: its threads do not outlive a fork
        return _store_of(self._bucket, self._settings)

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _put(self, name: str, content: bytes, mode: Literal["create", "overwrite"]) -> bool:
        with _told():
            try:
                # a multipart upload has no condition
                obstore.put(self._store, self._key(name), content, mode=mode, use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def _found(self, name: str) -> bytes | None:
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def _size(self, name: str) -> int | None:
        try:
            with _told():
                return int(obstore.head(self._store, self._key(name))["size"])
        except FileNotFoundError:
            return None

    def _opened(self, file: tuple[str, int]) -> pa.NativeFile:
        name, size = file
        key = self._key(name)
        with _told():
            if size > WHOLE:
                return pa.PythonFile(Ranges(self._store, key, size, _told), "r")
            return pa.BufferReader(pa.py_buffer(obstore.get(self._store, key).bytes()))

    def _listed(self, begin: str) -> Iterator[Any]:
        if not begin:
            yield from obstore.list_with_delimiter(self._store, self._prefix or None)["objects"]
            return
        for page in obstore.list(self._store, self._prefix or None, offset=self._key(begin)):
            yield from page

    @contextmanager
    def _coded(self) -> Iterator[None]:
        """Give what goes wrong at start its code."""
        where = f"{self.url} at {self._settings.where or 'Amazon S3'}"
        try:
            yield
        except PenstockError:
            raise
        except FileNotFoundError as error:
            raise ConfigError(
                "topic.no_bucket",
                f"{where}: there is no such bucket",
                fix="Make the bucket, or correct its name.",
                config_path="topics.dir",
            ) from error
        except PermissionError as error:
            raise AuthError(
                "topic.store_denied",
                f"{where}: {error}",
                fix="Check `topics.s3.access.key` and `topics.s3.secret.key`, or AWS_ACCESS_KEY_ID "
                "and AWS_SECRET_ACCESS_KEY; the key must be allowed to get, put, list and delete.",
                config_path="topics.s3.access.key",
            ) from error
        except OSError as error:
            raise RetriableError(
                "topic.store_unreachable",
                f"{where} did not answer within {_REQUEST.total_seconds():.0f} s: {error}",
                fix="Check `topics.s3.endpoint` and the network.",
                config_path="topics.s3.endpoint",
            ) from error


@lru_cache(maxsize=8)
def _store_of(bucket: str, settings: S3Settings) -> S3Store:
    """Return the client of a bucket: one for all its topics, because it keeps connections."""
    where = {"aws_endpoint_url_s3": settings.where} if settings.where else {}
    return S3Store(
        bucket,
        config=cast("S3Config", {**settings.options, **where, "aws_conditional_put": "etag"}),
        client_options={
            "connect_timeout": _CONNECT,
            "timeout": _REQUEST,
            "allow_http": settings.plain_http,
        },
        retry_config={
            "max_retries": _RETRIES,
            "retry_timeout": _REQUEST,
            "backoff": {
                "init_backoff": timedelta(milliseconds=50),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
    )


@contextmanager
def _told() -> Iterator[None]:
    """Say in words of a file system what the library says; without its dump of the request."""
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(_short(error)) from None
    except BaseError as error:
        if "AccessDenied" in str(error) or "403 Forbidden" in str(error):
            raise PermissionError(_short(error)) from None
        raise OSError(_short(error)) from None


def _short(error: Exception) -> str:
    text = str(error).partition("\n\nDebug source")[0]
    with suppress(ValueError):
        code = text[text.index("<Code>") + 6 : text.index("</Code>")]
        return f"{text[: text.index('<')].strip().rstrip(':')} ({code})"
    return text.strip()[:500]
