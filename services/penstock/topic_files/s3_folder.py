"""A folder of an S3-compatible store: keys below a prefix of a bucket.

A version is put by a PUT with `If-None-Match: *`, which the store refuses when the key exists.
Commits of several processes depend on this condition alone. Some stores ignore it, so it is checked
at start. A PUT that was answered is durable, and visible to every later GET and LIST.

A PUT whose answer was lost may have succeeded: the library then retries it, and gets the answer
that the key exists. So "it exists" does not mean that another process wrote it. The writer must
read it.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

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
from penstock.topic_files.folder import FileInfo, S3Settings

if TYPE_CHECKING:  # it does not exist at run time
    from obstore.store import S3Config

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

MAX_WHOLE_BYTES: Final = 4 << 20
"""Largest file that is read in one request. Larger ones are read by row group: a compacted file has
64 MiB, of which a slot wants 16."""

PART_BYTES: Final = 8 << 20
"""Bytes that are collected before they are sent. A smaller file is one request. Larger parts hold
more memory for each open file."""

MAX_REQUESTS_AHEAD: Final = 8
"""Concurrent requests of one caller. More would hide a slower network, and hold more memory: each
may be a file of some MiB."""

PROBE_KEY: Final = ".penstock-conditional-put"
"""The key that shows whether the store respects the condition."""

_THREADS: Final = 16
_CONCURRENT_PARTS: Final = 4
_CONNECT_TIMEOUT: Final = timedelta(seconds=5)
_REQUEST_TIMEOUT: Final = timedelta(seconds=20)
"""Limit of one request of at most 8 MiB, and of its retries. A shorter one fails on a slow network;
a longer one lets a store that hangs hold a task for longer than its commit may take."""

_MAX_RETRIES: Final = 4


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
        """What Delta's library needs. Contains secrets."""
        options = {key.upper(): value for key, value in self._settings.options.items()}
        return options | ({"AWS_ALLOW_HTTP": "true"} if self._settings.is_plain_http else {})

    def to_ticket(self) -> dict[str, Any]:
        """Return the URL and the settings. Contains secrets."""
        return {"root": self.url, "s3": self._settings.to_ticket()}

    def subfolder(self, name: str) -> S3Folder:
        """Return a folder in this one."""
        return S3Folder(self._bucket, self._key(name), self._settings)

    def check_usable(self) -> None:
        """Check access, and that the store respects the condition."""
        with self._translate_start_errors():
            # two puts: once the key exists, the first one is refused, which shows the same
            if self._put(PROBE_KEY, b"", "create") and self._put(PROBE_KEY, b"", "create"):
                raise ConfigError(
                    "topic.store_unconditional",
                    f"{self.url}: the store accepts a PUT with `If-None-Match: *` for a key that "
                    "exists: commits of two workers would overwrite each other",
                    fix="Use a store that respects the condition (Amazon S3 does), or a folder.",
                    config_path="topics.dir",
                )

    def create(self) -> None:
        """Do nothing: a folder exists when it has a key."""

    def put_new(self, name: str, content: bytes) -> bool:
        """Write a file unless it exists."""
        broken = faults.hit("topic.put_condition")
        return self._put(name, content, "overwrite" if broken else "create")

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        with _translate_errors():
            return obstore.get(self._store, self._key(name)).bytes().to_bytes()

    def read_sequence(self, names: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents of files up to the first that does not exist. Requests the first
        alone, as there is rarely more, then more and more at once.
        """
        left, window = iter(names), 1
        while batch := list(islice(left, window)):
            for content in map_ahead(self._read_if_exists, batch):
                if content is None:
                    return
                yield content
            window = min(2 * window, MAX_REQUESTS_AHEAD)

    def get_sizes(self, names: Iterable[str]) -> list[int | None]:
        """Return the bytes of files."""
        return list(map_ahead(self._size, names))

    def list_files(self, prefix: str = "") -> Iterator[FileInfo]:
        """Yield the files whose names begin with `prefix`."""
        with _translate_errors():
            for found in self._list_objects(prefix):
                name = found["path"].removeprefix(f"{self._prefix}/")
                if name.startswith(prefix) and "/" not in name:
                    yield FileInfo(name, found["size"], found["last_modified"].timestamp())
                elif prefix and name > prefix:
                    return

    def list_folders(self) -> list[str]:
        """Return the names of the folders in this one."""
        with _translate_errors():
            found = obstore.list_with_delimiter(self._store, self._prefix or None)
        return sorted(prefix.rpartition("/")[2] for prefix in found["common_prefixes"])

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, a thousand with one request."""
        keys = [self._key(name) for name in names]
        with _translate_errors():
            if keys:
                obstore.delete(self._store, keys)

    def create_file(self, name: str) -> S3Upload:
        """Begin a file."""
        return S3Upload(self._store, self._key(name))

    def open_files(self, files: Iterable[tuple[str, int]]) -> Iterator[pa.NativeFile]:
        """Yield files; the next ones are fetched ahead, because each costs a round trip."""
        return map_ahead(self._open, files)

    def sync(self, names: Iterable[str] = ()) -> None:
        """Do nothing: an answered request is durable."""

    @property
    def _store(self) -> S3Store:
        # created on first use: its threads do not survive a fork
        return _store_of(self._bucket, self._settings)

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _put(self, name: str, content: bytes, mode: Literal["create", "overwrite"]) -> bool:
        with _translate_errors():
            try:
                # a multipart upload has no condition
                obstore.put(self._store, self._key(name), content, mode=mode, use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def _read_if_exists(self, name: str) -> bytes | None:
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def _size(self, name: str) -> int | None:
        try:
            with _translate_errors():
                return int(obstore.head(self._store, self._key(name))["size"])
        except FileNotFoundError:
            return None

    def _open(self, file: tuple[str, int]) -> pa.NativeFile:
        name, size = file
        key = self._key(name)
        with _translate_errors():
            if size > MAX_WHOLE_BYTES:
                return pa.PythonFile(S3RangeReader(self._store, key, size), "r")
            return pa.BufferReader(pa.py_buffer(obstore.get(self._store, key).bytes()))

    def _list_objects(self, prefix: str) -> Iterator[Any]:
        if not prefix:
            yield from obstore.list_with_delimiter(self._store, self._prefix or None)["objects"]
            return
        for page in obstore.list(self._store, self._prefix or None, offset=self._key(prefix)):
            yield from page

    @contextmanager
    def _translate_start_errors(self) -> Iterator[None]:
        """Translate errors of the check at start into those of the product."""
        where = f"{self.url} at {self._settings.endpoint_url or 'Amazon S3'}"
        try:
            yield
        except PenstockError:
            raise
        except FileNotFoundError as error:
            raise ConfigError(
                "topic.no_bucket",
                f"{where}: the bucket does not exist",
                fix="Create the bucket, or correct its name.",
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
                f"{where} did not answer within {_REQUEST_TIMEOUT.total_seconds():.0f} s: {error}",
                fix="Check `topics.s3.endpoint` and the network.",
                config_path="topics.s3.endpoint",
            ) from error


@lru_cache(maxsize=8)
def _store_of(bucket: str, settings: S3Settings) -> S3Store:
    """Return the client of a bucket. All its topics share one, which keeps connections."""
    url = settings.endpoint_url
    endpoint = {"aws_endpoint_url_s3": url} if url else {}
    return S3Store(
        bucket,
        config=cast("S3Config", {**settings.options, **endpoint, "aws_conditional_put": "etag"}),
        client_options={
            "connect_timeout": _CONNECT_TIMEOUT,
            "timeout": _REQUEST_TIMEOUT,
            "allow_http": settings.is_plain_http,
        },
        retry_config={
            "max_retries": _MAX_RETRIES,
            "retry_timeout": _REQUEST_TIMEOUT,
            "backoff": {
                "init_backoff": timedelta(milliseconds=50),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
    )


def map_ahead(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yield the result of `work` for each item, in order; the next ones run meanwhile.

    `work` must not call this function: it would wait for its own threads.
    """
    pending: deque[Future[_Result]] = deque()
    try:
        for item in items:
            pending.append(_pool().submit(work, item))
            if len(pending) == MAX_REQUESTS_AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    # created on first use: threads do not survive a fork
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="topic-files")


class S3RangeReader(io.RawIOBase):
    """Reads ranges of an object. The Parquet reader requests a whole row group at a time, so
    nothing is kept between reads.
    """

    def __init__(self, store: S3Store, key: str, size: int) -> None:
        super().__init__()
        self._store, self._key, self._size = store, key, size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set where the next read begins, and return it."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, begin + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, fewer only at the end."""
        left = max(0, self._size - self._position)
        length = left if size < 0 else min(size, left)
        if not length:
            return b""
        with _translate_errors():
            found = obstore.get_range(self._store, self._key, start=self._position, length=length)
        self._position += length
        return found.to_bytes()


class S3Upload(io.RawIOBase):
    """What a Parquet writer writes to. The object is not visible before `finish`.

    Parts of an upload whose process was killed stay in the store, invisible, until a rule of the
    bucket removes them (`AbortIncompleteMultipartUpload`).
    """

    def __init__(self, store: S3Store, key: str) -> None:
        super().__init__()
        self._store, self._key = store, key
        self._writer = obstore.open_writer(
            store, key, buffer_size=PART_BYTES, max_concurrency=_CONCURRENT_PARTS
        )
        self._bytes = 0

    @property
    def sink(self) -> S3Upload:
        """The upload itself."""
        return self

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Send bytes, in parts."""
        with _translate_errors():
            written = self._writer.write(data)
        self._bytes += written
        return written

    def finish(self) -> int:
        """Send the rest and return all bytes: then the object is durable and visible."""
        with _translate_errors():
            self._writer.close()
        return self._bytes

    def discard(self) -> None:
        """Leave nothing. Sent parts are joined to an object and that is deleted: nothing else would
        remove the parts.
        """
        if self._bytes < PART_BYTES:
            return
        with suppress(Exception):
            self._writer.close()
        with suppress(Exception):
            obstore.delete(self._store, [self._key])


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate errors of the library into OSError, without its dump of the request."""
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(_shorten(error)) from None
    except BaseError as error:
        if "AccessDenied" in str(error) or "403 Forbidden" in str(error):
            raise PermissionError(_shorten(error)) from None
        raise OSError(_shorten(error)) from None


def _shorten(error: Exception) -> str:
    text = str(error).partition("\n\nDebug source")[0]
    with suppress(ValueError):
        code = text[text.index("<Code>") + 6 : text.index("</Code>")]
        return f"{text[: text.index('<')].strip().rstrip(':')} ({code})"
    return text.strip()[:500]
