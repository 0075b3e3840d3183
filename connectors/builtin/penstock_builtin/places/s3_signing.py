"""Signatures of requests to S3-compatible stores: Amazon's version 4. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Final
from urllib.parse import quote

from penstock_builtin.places.s3_keys import S3Access

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SAFE: Final = "-_.~"


def escaped_path(path: str) -> str:
    """Return a path as it goes over the wire, and into the signature."""
    return quote(path, safe="/" + _SAFE)


def escaped_query(query: Mapping[str, str]) -> str:
    """Return a query in the order and the form in which it is signed."""
    pairs = sorted((quote(k, safe=_SAFE), quote(v, safe=_SAFE)) for k, v in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


def signed_headers(
    method: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    body: bytes,
    access: S3Access,
    now: datetime,
) -> dict[str, str]:
    """Return the headers of a request. Without a key it is nobody's: public buckets take it.

    Args:
        method: The verb.
        host: With the port, when it is not the usual one.
        path: Not escaped.
        query: Not escaped.
        body: All of it.
        access: Who asks.
        now: In UTC.
    """
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest}
    if not access.identity:
        return headers
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    headers["x-amz-date"] = stamp
    if access.token:
        headers["x-amz-security-token"] = access.token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = "\n".join((method, escaped_path(path), escaped_query(query), lines, names, digest))
    scope = f"{stamp[:8]}/{access.region}/s3/aws4_request"
    text = "\n".join((_ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{access.secret}".encode()
    for part in (stamp[:8], access.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"{_ALGORITHM} Credential={access.identity}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return headers
