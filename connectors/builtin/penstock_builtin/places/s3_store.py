"""The requests that connectors make of a bucket."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape  # it writes XML, and reads none

from penstock_builtin.places.s3_http import S3Requests
from penstock_builtin.places.s3_keys import S3Access
from penstock_builtin.places.s3_xml import parse
from penstock_connector import RetriableError

_PAGE: Final = "1000"
_GONE: Final = frozenset({404})


@dataclass(frozen=True, slots=True)
class Stored:
    """An object: its version is the store's tag of what is in it."""

    key: str
    size: int
    tag: str


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A multipart upload that was not completed."""

    key: str
    upload: str


class S3Store:
    """One bucket."""

    def __init__(self, bucket: str, access: S3Access) -> None:
        self.bucket = bucket
        self._requests = S3Requests(bucket, access)

    def close(self) -> None:
        """Close the connections."""
        self._requests.close()

    def listed(self, prefix: str) -> Iterator[Stored]:
        """Yield the objects whose keys begin so, sorted."""
        query = {"list-type": "2", "prefix": prefix, "max-keys": _PAGE}
        while True:
            page = parse(self._requests.send("GET", "", query=query).body)
            for item in page.all("Contents"):
                yield Stored(item.text("Key"), int(item.text("Size") or 0), item.text("ETag"))
            token = page.text("NextContinuationToken")
            if page.text("IsTruncated") != "true" or not token:
                return
            query["continuation-token"] = token

    def head(self, key: str) -> Stored | None:
        """Return an object as it is now."""
        answer = self._requests.send("HEAD", key, allow=_GONE)
        if answer.status == 404:
            return None
        size = int(answer.headers.get("content-length", 0))
        return Stored(key, size, answer.headers.get("etag", ""))

    def get(self, key: str, tag: str, at: int, size: int) -> bytes:
        """Return bytes of an object, if it still is what the tag says.

        Raises:
            RetriableError: `s3.changed`: it was replaced or removed meanwhile.
        """
        headers = {"range": f"bytes={at}-{at + size - 1}"} | ({"if-match": tag} if tag else {})
        allow = frozenset({404, 412, 416})
        answer = self._requests.send("GET", key, headers=headers, allow=allow)
        if answer.status in {404, 412}:
            raise RetriableError(
                "s3.changed",
                f"s3://{self.bucket}/{key} was replaced or removed while it was read",
                fix="One that was replaced is read again, by the rule of `truncated`.",
            )
        return b"" if answer.status == 416 else answer.body

    def begin(self, key: str) -> str:
        """Begin a multipart upload, and return its id. Nobody sees the object before its end."""
        answer = self._requests.send("POST", key, query={"uploads": ""})
        return parse(answer.body).text("UploadId")

    def put_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        """Send a part of an upload; returns its tag."""
        query = {"partNumber": str(number), "uploadId": upload}
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        answer = self._requests.send(
            "PUT", key, query=query, body=data, headers={"content-md5": digest}
        )
        return answer.headers.get("etag", "")

    def complete(self, key: str, upload: str, tags: Sequence[str]) -> bool:
        """End an upload: the object is there, whole. False: there is no such upload any more."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
            for number, tag in enumerate(tags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        answer = self._requests.send(
            "POST", key, query={"uploadId": upload}, body=body, allow=_GONE
        )
        if answer.status == 404 or answer.code == "NoSuchUpload":
            return False
        if answer.code:  # said in the body of a 200: it began to answer before it was done
            raise RetriableError(
                "s3.unavailable",
                f"s3://{self.bucket}/{key}: the end of an upload was answered {answer.code}",
                fix="It is tried again.",
            )
        return True

    def abort(self, key: str, upload: str) -> None:
        """Forget an upload and its parts; none is as good."""
        self._requests.send("DELETE", key, query={"uploadId": upload}, allow=_GONE)

    def unfinished(self, prefix: str) -> Iterator[Unfinished]:
        """Yield the uploads, of keys that begin so, that were not completed."""
        query = {"uploads": "", "prefix": prefix, "max-uploads": _PAGE}
        while True:
            page = parse(self._requests.send("GET", "", query=query).body)
            for item in page.all("Upload"):
                yield Unfinished(item.text("Key"), item.text("UploadId"))
            if page.text("IsTruncated") != "true":
                return
            query["key-marker"] = page.text("NextKeyMarker")
            query["upload-id-marker"] = page.text("NextUploadIdMarker")

    def put(self, key: str, data: bytes) -> None:
        """Write a small object as a whole."""
        self._requests.send("PUT", key, body=data)

    def read(self, key: str) -> bytes | None:
        """Return a small object; None when there is none."""
        answer = self._requests.send("GET", key, allow=_GONE)
        return None if answer.status == 404 else answer.body

    def delete(self, key: str) -> None:
        """Remove an object; none is as good."""
        self._requests.send("DELETE", key, allow=_GONE)
