"""What a server or a network says, as errors for people.

- retried: `http.unreachable` `http.timeout` `http.truncated` `http.throttled` `http.server_error`
- credentials: `http.auth`
- configuration: `http.tls` `http.not_http` `http.redirect` `http.not_found`
- data: `http.too_large` `http.encoding` `http.refused`
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable
from typing import Final

import httpcore

from penstock_connector import AuthError, ConfigError, ConnectorError, DataError, RetriableError

EXCERPT: Final = 300
"""Characters of an answer that an error shows: enough for a sentence of the other side, and not a
whole web page."""

Redact = Callable[[str], str]


_HUNG_UP: Final = "Server disconnected"
"""How the library begins what it says of a connection that ended before an answer began."""


def hung_up(error: Exception) -> bool:
    """Return whether the other side ended the connection instead of answering."""
    return not isinstance(error, httpcore.ProtocolError) or str(error).startswith(_HUNG_UP)


def network_error(error: Exception, where: str) -> ConnectorError:
    """Return what went wrong before there was an answer."""
    told = error.args[0] if isinstance(error, httpcore.NetworkError) and error.args else None
    match told if isinstance(told, Exception) else error:
        case ssl.SSLCertVerificationError() as found:
            return ConfigError(
                "http.tls",
                f"{where}: its certificate is not trusted: {found.verify_message}",
                fix="Name the authority's certificate in `tls.ca`, and the host as it is called "
                "in the certificate.",
                config_path="tls.ca",
            )
        case httpcore.TimeoutException() | TimeoutError():
            return timed_out(where)
        case socket.gaierror():
            return _unreachable(where, "no such host is known")
        case httpcore.ProxyError():
            return proxy_error(str(error), where)
        case httpcore.ProtocolError() if not hung_up(error):
            return ConfigError(
                "http.not_http",
                f"{where}: what answers there does not speak HTTP ({error})",
                fix="Check host, port, and whether it is http or https.",
                config_path="url",
            )
        case found:
            return _unreachable(where, str(found) or type(found).__name__)


def proxy_error(said: str, where: str) -> ConnectorError:
    """Return what a proxy means that does not lead to a server; `said` begins with a status."""
    if said.startswith("407"):
        return AuthError(
            "http.auth",
            f"{where}: the proxy answers {said}",
            fix="Check `proxy.user` and `proxy.password`.",
            config_path="proxy.user",
        )
    return RetriableError(
        "http.unreachable",
        f"{where}: the proxy answers {said}",
        fix="It is tried again; check that the proxy reaches the server, or name its host in "
        "`proxy.exclude`.",
        config_path="proxy.url",
    )


def _unreachable(where: str, why: str) -> RetriableError:
    return RetriableError(
        "http.unreachable",
        f"{where}: {why}",
        fix="It is tried again; check that the server runs and can be reached from the worker.",
    )


def timed_out(where: str) -> RetriableError:
    """Return the error for an answer that did not come whole in time."""
    return RetriableError(
        "http.timeout",
        f"{where}: no whole answer in time",
        fix="It is tried again; a slow server needs a larger `request.timeout`.",
    )


def truncated(where: str) -> RetriableError:
    """Return the error for an answer that ends too early."""
    return RetriableError(
        "http.truncated",
        f"{where}: the answer ends before it is complete",
        fix="It is tried again; nothing of it is used.",
    )


def too_large(where: str, most: int) -> DataError:
    """Return the error for an answer above the limit."""
    return DataError(
        "http.too_large",
        f"{where}: the answer has more than {most} bytes",
        fix="Ask for smaller pages, or raise `response.max.bytes`.",
    )


def status_error(status: int, where: str, body: str, *, retry_after: float = 0.0) -> ConnectorError:
    """Return what a status means that is no success.

    Args:
        status: The status.
        where: The address, for people.
        body: What the server says, without secrets; an excerpt is shown.
        retry_after: Seconds that the server asks for.
    """
    said = " ".join(body.split())[:EXCERPT]
    text = f"{where} answers {status} {_words(status)}" + (f": {said}" if said else "")
    if status == 407:
        return proxy_error(f"{status} {_words(status)}", where)
    if status in {401, 403}:
        return AuthError("http.auth", text, fix="Check `auth.type` and its credentials.")
    if status in {404, 410}:
        return ConfigError("http.not_found", text, fix="Check the address.", config_path="url")
    if 300 <= status < 400:
        return ConfigError(
            "http.redirect", text, fix="Give the address that it leads to.", config_path="url"
        )
    if status == http.client.TOO_MANY_REQUESTS:
        return RetriableError(
            "http.throttled",
            text,
            fix="It is tried again when the server says; ask more rarely.",
            retry_after=retry_after,
        )
    if status >= 500 or status in {408, 425}:
        return RetriableError(
            "http.server_error", text, fix="It is tried again.", retry_after=retry_after
        )
    return DataError("http.refused", text, fix="The answer says what the server does not take.")


def _words(status: int) -> str:
    return http.client.responses.get(status, "")
