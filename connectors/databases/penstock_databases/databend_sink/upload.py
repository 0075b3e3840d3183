"""A file into the stage of a server's user: the one call that Databend's driver lacks.

https://docs.databend.com/developer/apis/http#upload-to-stage: a multipart PUT, sent as it is read.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import ssl
from collections.abc import Iterator
from typing import BinaryIO, Final

from penstock_connector import ConnectorError
from penstock_databases.databend_sink.failing import databend_error
from penstock_databases.databend_sink.url import DatabendTarget
from penstock_databases.dialect import Login

_CHUNK: Final = 1 << 20
_ANSWER_MOST: Final = 64 << 10
"""Bytes of an answer that are read: it is a line, or somebody else's web page."""


def upload(target: DatabendTarget, login: Login, name: str, file: BinaryIO) -> None:
    """Put a file into the user's own stage.

    Raises:
        ConnectorError: `sql.…`.
    """
    boundary = secrets.token_hex(16)
    part = "Content-Type: application/octet-stream"
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="upload"; filename="{name}"\r\n'
        f"{part}\r\n\r\n"
    ).encode()
    tail = f"\r\n--{boundary}--\r\n".encode()
    size = file.seek(0, os.SEEK_END)
    headers = {
        **_headers(target, login),
        "Content-Type": f"multipart/form-data; boundary={boundary}",
        "Content-Length": str(len(head) + size + len(tail)),
    }
    connection = _connection(target)
    try:
        connection.request("PUT", "/v1/upload_to_stage", _body(head, file, tail), headers)
        answer = connection.getresponse()
        said = answer.read(_ANSWER_MOST)
    except (OSError, http.client.HTTPException) as error:
        raise databend_error(f"connection closed: {error!r}", target) from None
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise _refused(target, answer.status, said)


def _connection(target: DatabendTarget) -> http.client.HTTPConnection:
    if not target.tls:
        return http.client.HTTPConnection(target.host, target.port, timeout=target.query_timeout)
    context = ssl.create_default_context()
    if target.ca:
        context.load_verify_locations(target.ca)
    return http.client.HTTPSConnection(
        target.host, target.port, timeout=target.query_timeout, context=context
    )


def _headers(target: DatabendTarget, login: Login) -> dict[str, str]:
    pair = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
    cloud = {"X-DATABEND-TENANT": target.tenant, "X-DATABEND-WAREHOUSE": target.warehouse}
    return {
        "Authorization": f"Basic {pair}",
        "X-DATABEND-STAGE-NAME": "~",
        **{header: value for header, value in cloud.items() if value},
    }


def _body(head: bytes, file: BinaryIO, tail: bytes) -> Iterator[bytes]:
    yield head
    file.seek(0)
    while chunk := file.read(_CHUNK):
        yield chunk
    yield tail


def _refused(target: DatabendTarget, status: int, said: bytes) -> ConnectorError:
    try:
        error = json.loads(said)["error"]
        text = f"[{int(error['code']):04}]{error['message']}"
    except (ValueError, KeyError, TypeError):
        if status >= http.client.INTERNAL_SERVER_ERROR:
            return databend_error(f"connection closed: HTTP {status}", target)
        text = f"HTTP {status}"
    return databend_error(text, target)
