"""The body of an answer, unpacked, and never more of it than is allowed (invariant 12)."""

from __future__ import annotations

import zlib
from typing import Final

import httpcore

from penstock_connector import DataError
from penstock_net.web.failing import too_large, truncated

_GZIP: Final = 31
"""zlib's number for a gzip header."""


def body_of(answer: httpcore.Response, most: int, where: str) -> bytes:
    """Return the body.

    Raises:
        DataError: `http.too_large`, before it is read where its size is declared; `http.encoding`.
        RetriableError: `http.truncated`.
    """
    headers = {name.lower(): value for name, value in answer.headers}
    if int(headers.get(b"content-length", 0)) > most:
        raise too_large(where, most)
    unpack = _unpacker(headers.get(b"content-encoding", b"").decode("latin-1"), where)
    parts: list[bytes] = []
    size = 0
    try:
        for chunk in answer.iter_stream():
            plain = unpack.decompress(chunk, most - size + 1) if unpack else chunk
            size += len(plain)
            if size > most:
                raise too_large(where, most)
            parts.append(plain)
    except httpcore.RemoteProtocolError:
        raise truncated(where) from None
    if unpack and not unpack.eof:
        raise truncated(where)
    return b"".join(parts)


def _unpacker(encoding: str, where: str) -> zlib._Decompress | None:
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return zlib.decompressobj(_GZIP)
    raise DataError(
        "http.encoding",
        f"{where}: the answer is packed as {encoding[:40]!r}, which was not asked for",
        fix="Make the server send gzip, or nothing packed.",
    )
