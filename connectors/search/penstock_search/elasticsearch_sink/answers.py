"""What the answers of a server mean. Pure.

- retried: `elasticsearch.unreachable` `elasticsearch.timeout` `elasticsearch.throttled`
  `elasticsearch.server_error` `elasticsearch.truncated` `elasticsearch.blocked`
- credentials: `elasticsearch.auth`
- configuration: `elasticsearch.tls` `elasticsearch.redirect` `elasticsearch.not_json`
  `elasticsearch.refused` `elasticsearch.not_found` `elasticsearch.not_http`
- data: `elasticsearch.rejected_document` `elasticsearch.document_too_large`
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpcore

from penstock_connector import AuthError, ConfigError, ConnectorError, DataError, RetriableError

_EXCERPT: Final = 300
"""Characters of an answer that an error shows."""

_RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_HUNG_UP: Final = ("Server disconnected", "peer closed connection")
"""How the library begins what it says of a connection that ended before an answer did."""

_BLOCKED: Final = frozenset({"cluster_block_exception", "index_create_block_exception"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whole."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    where: str

    def header(self, name: str) -> str:
        """Return a header; empty: there is none."""
        wanted = name.lower().encode()
        return next((v.decode("latin-1") for n, v in self.headers if n.lower() == wanted), "")

    @property
    def retry_after_s(self) -> float:
        """Seconds that the server asks to wait."""
        text = self.header("Retry-After").strip()
        return float(text[:6]) if text.isascii() and text.isdigit() else 0.0


def network_error(error: Exception, where: str) -> ConnectorError:
    """Return what went wrong before there was an answer."""
    told = error.args[0] if isinstance(error, httpcore.NetworkError) and error.args else None
    cause = error.__cause__ or error.__context__
    match next((one for one in (told, cause) if isinstance(one, Exception)), error):
        case ssl.SSLCertVerificationError() as found:
            return ConfigError(
                "elasticsearch.tls",
                f"{where}: its certificate is not trusted: {found.verify_message}",
                fix="Set `elastic.security.protocol=SSL`, name the authority's certificate in "
                "`elastic.https.ssl.truststore.location`, and the host as the certificate does.",
                config_path="elastic.https.ssl.truststore.location",
            )
        case ssl.SSLError() as found:
            return ConfigError(
                "elasticsearch.tls",
                f"{where}: TLS fails: {found.reason or found}",
                fix="Check whether it is http or https, and whether the server wants a certificate "
                "of ours (`elastic.https.ssl.keystore.location`).",
                config_path="connection.url",
            )
        case socket.gaierror():
            return _unreachable(where, "no such host is known")
        case found:
            return _protocol_error(error, found, where)


def _protocol_error(error: Exception, cause: Exception, where: str) -> ConnectorError:
    match error:
        case httpcore.TimeoutException():
            return timed_out(where)
        case httpcore.ProxyError():
            return _proxy_error(str(error), where)
        case httpcore.ProtocolError() if not str(error).startswith(_HUNG_UP):
            return _not_http(where, error)
        case httpcore.ProtocolError():
            return _unreachable(where, "it ended the connection before its answer was complete")
    return _unreachable(where, str(cause) or type(cause).__name__)


def _not_http(where: str, error: Exception) -> ConfigError:
    return ConfigError(
        "elasticsearch.not_http",
        f"{where}: what answers there does not speak HTTP ({error})",
        fix="Check host and port, and whether it is http or https.",
        config_path="connection.url",
    )


def _proxy_error(said: str, where: str) -> ConnectorError:
    if said.startswith("407"):
        return AuthError(
            "elasticsearch.auth",
            f"{where}: the proxy answers {said}",
            fix="Check `proxy.username` and `proxy.password`.",
            config_path="proxy.username",
        )
    return _unreachable(where, f"the proxy answers {said}")


def _unreachable(where: str, why: str) -> RetriableError:
    return RetriableError(
        "elasticsearch.unreachable",
        f"{where}: {why}",
        fix="It is tried again; check that the server runs and can be reached from the worker.",
    )


def timed_out(where: str) -> RetriableError:
    """Return the error for an answer that did not come in time."""
    return RetriableError(
        "elasticsearch.timeout",
        f"{where}: no answer in time",
        fix="It is tried again; a slow server needs larger `read.timeout.ms` and "
        "`connection.timeout.ms`, or smaller requests (`batch.size`).",
    )


def status_error(answer: Answer, error: Mapping[str, Any] | None = None) -> ConnectorError:
    """Return what a status means that is no success; `error` is what the server says of it."""
    status, where = answer.status, answer.where
    said = (
        reason_of(error)
        if error
        else " ".join(answer.body[:2000].decode("utf-8", "replace").split())
    )
    words = http.client.responses.get(status, "")
    text = f"{where} answers {status} {words}" + (f": {said[:_EXCERPT]}" if said else "")
    if status == 407:
        return _proxy_error(f"{status} {words}", where)
    if _is_block(error):
        return _blocked(text)
    if status in {401, 403}:
        return AuthError(
            "elasticsearch.auth",
            text,
            fix="Check `connection.username` and `connection.password`, and the rights of the "
            "user: create_index, index, delete, and monitor.",
            config_path="connection.username",
        )
    if 300 <= status < 400:
        return ConfigError(
            "elasticsearch.redirect",
            f"{where} answers {status} and leads to {answer.header('Location')[:200]!r}; rows and "
            "passwords are sent to no address but those of `connection.url`",
            fix="Name the address of the servers themselves in `connection.url`.",
            config_path="connection.url",
        )
    if status in _RETRIED:
        code = "throttled" if status == 429 else "server_error"
        return RetriableError(
            f"elasticsearch.{code}", text, fix="It is tried again.",
            retry_after=answer.retry_after_s,
        )  # fmt: skip
    if status == 404:
        return ConfigError(
            "elasticsearch.not_found", text, fix="Check `connection.url`, its path too.",
            config_path="connection.url",
        )  # fmt: skip
    return ConfigError(
        "elasticsearch.refused", text, fix="The answer says what the server does not take."
    )


def not_json(answer: Answer) -> ConnectorError:
    """Return the error for an answer that is not one of Elasticsearch."""
    said = " ".join(answer.body[:2000].decode("utf-8", "replace").split())[:_EXCERPT]
    return ConfigError(
        "elasticsearch.not_json",
        f"{answer.where} answers {answer.status}, and not in JSON as Elasticsearch does: {said!r}",
        fix="Check that `connection.url` is that of Elasticsearch or OpenSearch, and that nothing "
        "between (a proxy, a login page) answers instead.",
        config_path="connection.url",
    )


def reason_of(error: Mapping[str, Any]) -> str:
    """Return what a server says is wrong: the reason, and the innermost cause."""
    text = f"{error.get('type', 'error')}: {error.get('reason', '')}"
    cause = error.get("caused_by")
    while isinstance(cause, Mapping) and isinstance(cause.get("caused_by"), Mapping):
        cause = cause["caused_by"]
    if isinstance(cause, Mapping) and cause.get("reason"):
        text += f" ({cause['reason']})"
    return text


def item_error(where: str, status: int, error: Mapping[str, Any]) -> ConnectorError:
    """Return what it means that one document of a request was not taken."""
    said = reason_of(error)[:_EXCERPT]
    if _is_block(error):
        return _blocked(f"{where}: {said}")
    if status == 429 or status >= 500 or error.get("type") == "es_rejected_execution_exception":
        code = "throttled" if status == 429 else "server_error"
        return RetriableError(
            f"elasticsearch.{code}", f"{where}: {status} {said}", fix="It is tried again."
        )
    if status == 409:
        return RetriableError(
            "elasticsearch.update_conflict",
            f"{where}: {said}",
            fix="It is tried again: another writer changes the same documents.",
        )
    if status in {401, 403}:
        return AuthError(
            "elasticsearch.auth",
            f"{where}: {status} {said}",
            fix="Give the user of `connection.username` the right to write there.",
            config_path="connection.username",
        )
    if error.get("type") == "index_not_found_exception":
        return RetriableError(
            "elasticsearch.no_index",
            f"{where}: {said}",
            fix="It is tried again, and the index is made anew, unless it is one of "
            "`topic.to.external.resource.mapping`: make that one.",
        )
    return DataError(
        "elasticsearch.rejected_document",
        f"the server refuses the document: {status} {said}",
        fix="Correct the row or the index's field, or set `behavior.on.malformed.documents=warn` "
        "to leave such documents out.",
    )


def too_large(where: str, size: int) -> DataError:
    """Return the error for a document that a server does not take because of its size."""
    return DataError(
        "elasticsearch.document_too_large",
        f"a document of {size} bytes is more than {where} takes in a request",
        fix="Leave large columns out (the transform ReplaceField), or raise "
        "`http.max_content_length` of the servers.",
    )


def _is_block(error: Mapping[str, Any] | None) -> bool:
    return error is not None and error.get("type") in _BLOCKED


def _blocked(text: str) -> RetriableError:
    return RetriableError(
        "elasticsearch.blocked",
        text,
        fix="It is tried again. Mostly a disk is full: free some space, or remove the index's "
        "setting `index.blocks.…`.",
    )
