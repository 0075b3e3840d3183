"""The requests that connectors make of a bucket: tried again, answered or told in our words."""

from __future__ import annotations

import base64
import hashlib
import random
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    InvalidRegionError,
    NoCredentialsError,
    ParamValidationError,
    ProfileNotFound,
    SSLError,
)
from botocore.parsers import ResponseParserError

from penstock_builtin.places.s3_keys import S3Access, S3Url
from penstock_builtin.places.s3_session import ElsewhereError, S3Connection
from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError

_WITHIN: Final = 45.0
"""Seconds in which a request is tried again. Then the task fails, and is tried again as a whole."""

_PAUSE: Final = 0.1
"""Seconds before the second try; doubled for each further one, and varied by a half, so that tasks
that failed together do not come again together."""

_PAUSE_MOST: Final = 3.0
_PAGE: Final = 1000
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
_REGIONS: Final = frozenset(
    {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"}
)


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

    def __init__(self, url: S3Url, access: S3Access) -> None:
        self.bucket, self._url, self._access = url.bucket, url, access
        self._endpoint = access.endpoint
        try:
            self._connection = S3Connection(url.bucket, access)
        except (BotoCoreError, ValueError, OSError) as error:
            raise self._unanswered(error) from None

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def listed(self, prefix: str) -> Iterator[Stored]:
        """Yield the objects whose keys begin so, sorted."""
        more: dict[str, Any] = {}
        while True:
            page = self._asked("list_objects_v2", Prefix=prefix, MaxKeys=_PAGE, **more)
            for item in page.get("Contents", ()):
                yield Stored(item["Key"], item.get("Size", 0), item.get("ETag", ""))
            if not page.get("IsTruncated") or not page.get("NextContinuationToken"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def head(self, key: str) -> Stored | None:
        """Return an object as it is now."""
        found = self._asked("head_object", key, allow={404})
        return found and Stored(key, found.get("ContentLength", 0), found.get("ETag", ""))

    def get(self, key: str, tag: str, at: int, size: int) -> bytes:
        """Return bytes of an object, if it still is what the tag says.

        Raises:
            RetriableError: `s3.changed`: it was replaced or removed meanwhile.
        """
        only: dict[str, Any] = {"IfMatch": tag} if tag else {}
        wanted = f"bytes={at}-{at + size - 1}"
        found = self._asked("get_object", key, allow={404, 412, 416}, Range=wanted, **only)
        if found is None:
            raise RetriableError(
                "s3.changed",
                f"{self._url.at(key)} was replaced or removed while it was read",
                fix="One that was replaced is read again, by the rule of `truncated`.",
            )
        return _body(found)

    def begin(self, key: str) -> str:
        """Begin a multipart upload, and return its id. Nobody sees the object before its end."""
        return str(self._asked("create_multipart_upload", key)["UploadId"])

    def put_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        """Send a part of an upload; returns its tag."""
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        part: dict[str, Any] = {
            "UploadId": upload,
            "PartNumber": number,
            "Body": data,
            "ContentMD5": digest,
        }
        return str(self._asked("upload_part", key, **part).get("ETag", ""))

    def complete(self, key: str, upload: str, tags: Sequence[str]) -> bool:
        """End an upload: the object is there, whole. False: there is no such upload any more."""
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        whole: dict[str, Any] = {"UploadId": upload, "MultipartUpload": {"Parts": parts}}
        gone: set[int | str] = {404, "NoSuchUpload"}
        return self._asked("complete_multipart_upload", key, allow=gone, **whole) is not None

    def abort(self, key: str, upload: str) -> None:
        """Forget an upload and its parts; none is as good."""
        self._asked("abort_multipart_upload", key, allow={404}, UploadId=upload)

    def unfinished(self, prefix: str) -> Iterator[Unfinished]:
        """Yield the uploads, of keys that begin so, that were not completed."""
        more: dict[str, Any] = {}
        while True:
            page = self._asked("list_multipart_uploads", Prefix=prefix, MaxUploads=_PAGE, **more)
            for item in page.get("Uploads", ()):
                yield Unfinished(item["Key"], item["UploadId"])
            if not page.get("IsTruncated"):
                return
            more = {
                "KeyMarker": page.get("NextKeyMarker", ""),
                "UploadIdMarker": page.get("NextUploadIdMarker", ""),
            }

    def put(self, key: str, data: bytes) -> None:
        """Write a small object as a whole."""
        self._asked("put_object", key, Body=data)

    def read(self, key: str) -> bytes | None:
        """Return a small object; None when there is none."""
        found = self._asked("get_object", key, allow={404})
        return found and _body(found)

    def delete(self, key: str) -> None:
        """Remove an object; none is as good."""
        self._asked("delete_object", key, allow={404})

    def _asked(
        self, operation: str, key: str = "", *, allow: Collection[int | str] = (), **more: Any
    ) -> Any:
        """Return what a request is answered with.

        Args:
            operation: Its name in botocore.
            key: The object; empty for the bucket.
            allow: Statuses and codes of failures for which None is returned.
            more: Its other parameters.

        Raises:
            ConnectorError: anything else.
        """
        deadline, pause = time.monotonic() + _WITHIN, _PAUSE
        named = {"Key": key} if key else {}
        while True:
            try:
                call = getattr(self._connection.client, operation)
                return call(Bucket=self.bucket, **named, **more)
            except ClientError as error:
                told = error.response
                status = told["ResponseMetadata"]["HTTPStatusCode"]
                if status in allow or told["Error"].get("Code") in allow:
                    return None
                failed = self._refused(error, operation, key, status)
            except (
                BotoCoreError,
                ResponseParserError,
                ElsewhereError,
                ValueError,
                OSError,
            ) as error:
                failed = self._unanswered(error)
            if not isinstance(failed, RetriableError) or time.monotonic() + pause > deadline:
                raise failed
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause = min(pause * 2, _PAUSE_MOST)

    def _refused(self, error: ClientError, operation: str, key: str, status: int) -> ConnectorError:
        """Return what the store says, or STS of a role."""
        code = error.response["Error"].get("Code", "")
        where = f"{self._url.at(key)}: {operation} was answered {status} {code}"
        if status in _AGAIN or code == "RequestTimeout":
            return RetriableError("s3.unavailable", where, fix="The store is busy or ill.")
        if error.operation_name.startswith("AssumeRole"):
            return _no_key(f"the role was refused: {error}")
        if code == "NoSuchBucket" or (status == 404 and not key):
            return ConfigError(
                "s3.no_bucket",
                f"{self._endpoint} has no bucket {self.bucket!r}",
                fix="Make the bucket, or correct its name.",
                config_path="path",
            )
        if status in {401, 403}:
            return AuthError(
                "s3.denied",
                where,
                fix=f"Check `{self._access.group}.credentials` and what belongs to it; the key "
                "must be allowed to list and get, a sink's to put and delete, too.",
                config_path="s3.access.key" if self._access.group == "s3" else "gcs.key",
            )
        if code in _REGIONS:
            return _other_region(where)
        return ConnectorError("s3.refused", where, fix="See the store's log.")

    def _unanswered(self, error: Exception) -> ConnectorError:
        """Return why there is no answer."""
        why = str(getattr(error, "kwargs", {}).get("error") or error)
        match error:
            case ElsewhereError():
                return _other_region(f"{self._endpoint} leads to {why}, which is not asked")
            case NoCredentialsError() | ProfileNotFound() | FileNotFoundError() | PermissionError():
                return _no_key(why)
            case SSLError() if "CERTIFICATE_VERIFY_FAILED" in why:
                return ConfigError(
                    "s3.certificate",
                    f"{self._endpoint} is not who it says it is: {why}",
                    fix="Give the machine the certificate of the store's authority, or correct "
                    "the URL.",
                    config_path="s3.endpoint",
                )
            case CredentialRetrievalError():
                return RetriableError(
                    "s3.unreachable",
                    why,
                    fix="Check what `s3.credentials` names; it is tried again.",
                    config_path="s3.credentials",
                )
            case ResponseParserError():
                return RetriableError(
                    "s3.unavailable",
                    f"{self._endpoint}: the answer is not of a store",
                    fix="Check `s3.endpoint`; is something else listening there?",
                    config_path="s3.endpoint",
                )
            case ParamValidationError() | InvalidRegionError() | ValueError():
                return ConfigError(
                    "config.invalid_value",
                    " ".join(why.split()),
                    fix="Correct `path`, `s3.endpoint` or `s3.region`.",
                    config_path="path",
                )
        return RetriableError(
            "s3.unreachable",
            f"{self._endpoint} did not answer: {why or type(error).__name__}",
            fix="Check `s3.endpoint` and the network; it is tried again.",
            config_path="s3.endpoint",
        )


def _body(found: Any) -> bytes:
    data: bytes = found["Body"].read()
    return data


def _no_key(why: str) -> AuthError:
    return AuthError(
        "s3.denied",
        f"there is no key: {why}",
        fix="Check `s3.credentials` and what belongs to it.",
        config_path="s3.credentials",
    )


def _other_region(where: str) -> ConfigError:
    return ConfigError("s3.region", where, fix="Correct `s3.region`.", config_path="s3.region")
