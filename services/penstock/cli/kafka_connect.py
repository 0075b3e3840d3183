"""Requests to a Kafka Connect cluster. Its errors become ours.

Only what a migration needs: connectors with their states, offsets, and changes of both.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from penstock.cli.gateway_client import authorization_header, tls_context, url_path
from penstock.cli.kafka_connect_offsets import Offset
from penstock.cli.progress import status_line
from penstock.model.errors import (
    AuthError,
    ConfigError,
    InternalError,
    PenstockError,
    RetriableError,
)

CREDENTIAL_VARIABLE: Final = "PENSTOCK_CONNECT_CREDENTIAL"
"""NAME:PASSWORD, or a token. It has no option: other users of a machine see command lines."""
CA_VARIABLE: Final = "PENSTOCK_CONNECT_CA"

TIMEOUT_S: Final = 95.0
"""Kafka Connect gives up after 90 seconds, and its answer names what it waited for."""

CONNECT_TIMEOUT_S: Final = 10.0

REBALANCE_TIMEOUT_S: Final = 60.0
"""How long a request is repeated while the workers there share out their work anew."""

_PAUSE_S: Final = 0.5

STOPPED: Final = "STOPPED"


@dataclass(frozen=True, slots=True)
class RemoteConnector:
    """A connector of Kafka Connect.

    Attributes:
        name: Its name.
        kind: `source` or `sink`.
        config: Its keys, without its name.
        state: Its state.
        tasks: How many tasks it has. A stopped one has none.
    """

    name: str
    kind: str
    config: Mapping[str, str]
    state: str
    tasks: int

    @property
    def is_stopped(self) -> bool:
        """Whether nothing moves there any more, and its offsets are the last ones."""
        return self.state == STOPPED and not self.tasks


class KafkaConnectClient:
    """A connection to Kafka Connect's REST API. `with KafkaConnectClient(url) as connect`."""

    def __init__(self, url: str, credential: str = "", ca: str = "") -> None:
        """Check the arguments. The first request connects.

        Args:
            url: http://HOST:PORT.
            credential: NAME:PASSWORD, or a token.
            ca: a PEM file that the certificate is checked against; empty for the authorities that
                the machine trusts.

        Raises:
            ConfigError: `connect.url`, `server.ca`, `server.credential`.
        """
        _check_url(url)
        self.url = url.rstrip("/")
        headers = (
            {"Authorization": authorization_header(credential, CREDENTIAL_VARIABLE)}
            if credential
            else {}
        )
        self._client = httpx.Client(
            base_url=self.url,
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            headers=headers,
            verify=tls_context(ca, "--connect-ca") if ca else True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def server_info(self) -> tuple[str, str]:
        """Return the version, and the id of the cluster of Kafka.

        Raises:
            ConfigError: `connect.foreign`: something else answers.
        """
        found = self._request("GET", "/")
        if not isinstance(found, dict) or "kafka_cluster_id" not in found:
            raise _foreign(self.url, "its answer has no `kafka_cluster_id`")
        return str(found.get("version")), str(found["kafka_cluster_id"])

    def list_connectors(self) -> dict[str, RemoteConnector]:
        """Return all connectors by name."""
        found = self._request("GET", "/connectors", expand=["info", "status"])
        try:
            return {name: _remote(name, one) for name, one in sorted(found.items())}
        except (AttributeError, KeyError, TypeError) as error:
            raise _foreign(self.url, f"its list of connectors cannot be read: {error!r}") from None

    def list_offsets(self, connector: str) -> Sequence[Offset]:
        """Return the offsets of a connector.

        Raises:
            ConfigError: `connect.no_offsets`: it is older than 3.5.
        """
        try:
            found = self._request("GET", url_path("connectors", connector, "offsets"))
        except PenstockError as error:
            if error.code != "connect.not_found":
                raise
            raise ConfigError(
                "connect.no_offsets",
                "this Kafka Connect does not return offsets: it is older than 3.5",
                fix="Update it, or go on with --without-offsets: rows come again.",
            ) from error
        return list(found["offsets"])

    def alter_offsets(self, connector: str, offsets: Sequence[Offset]) -> None:
        """Store offsets of a stopped connector."""
        path = url_path("connectors", connector, "offsets")
        self._request("PATCH", path, body={"offsets": list(offsets)})

    def resume(self, connector: str) -> None:
        """Let a connector run."""
        self._request("PUT", url_path("connectors", connector, "resume"))

    def _request(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the JSON value of an answer. While workers rebalance, the answer is 409."""
        more = {} if body is None else {"json": body}
        deadline = time.monotonic() + REBALANCE_TIMEOUT_S
        with status_line(f"waiting for {self.url}"):
            while True:
                try:
                    response = self._client.request(method, path, params=query, **more)
                except httpx.HTTPError as error:
                    raise self._no_response(error) from error
                if response.status_code != httpx.codes.CONFLICT or time.monotonic() > deadline:
                    break
                time.sleep(_PAUSE_S)
        if not response.is_success:
            raise self._error(response)
        if not response.content:
            return None
        return self._json(response)

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError:
            raise _foreign(self.url, "its answer is not JSON") from None

    def _error(self, response: httpx.Response) -> PenstockError:
        status = response.status_code
        if status in {401, 403}:
            return AuthError(
                "connect.denied",
                f"{self.url} refused the request with status {status}",
                fix=f"Set {CREDENTIAL_VARIABLE} to NAME:PASSWORD of a user who may do that.",
            )
        found = self._json(response)
        message = found.get("message") if isinstance(found, dict) else None
        if not message:
            return _foreign(self.url, f"it answers {status} without a message")
        text = f"{self.url}: {message}"
        if status == httpx.codes.NOT_FOUND:
            fix = "Look at the connectors there: penstock import kafka-connect URL."
            return ConfigError("connect.not_found", text, fix=fix)
        if status in {409, 503}:
            return RetriableError("connect.busy", text, fix="Try again in a minute.")
        if status < 500:
            return ConfigError("connect.refused", text, fix="Follow the message of Kafka Connect.")
        return InternalError("connect.failed", text, fix="Look into the log of its worker.")

    def _no_response(self, error: httpx.HTTPError) -> RetriableError:
        message = f"no response from {self.url}: {type(error).__name__}: {error}".rstrip(": ")
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return RetriableError(
                "connect.untrusted",
                message,
                fix="Name the file of the authority that signed its certificate with --connect-ca "
                f"or {CA_VARIABLE}, and use the host name of the certificate.",
            )
        return RetriableError(
            "connect.unreachable",
            message,
            fix="Check the URL, and that a worker of Kafka Connect listens there.",
        )


def _remote(name: str, found: Mapping[str, Any]) -> RemoteConnector:
    info, status = found["info"], found["status"]
    return RemoteConnector(
        name,
        str(info.get("type") or status.get("type")),
        {key: value for key, value in info["config"].items() if key != "name"},
        str(status["connector"]["state"]),
        len(status["tasks"]),
    )


def _foreign(url: str, why: str) -> ConfigError:
    return ConfigError(
        "connect.foreign",
        f"{url} is not Kafka Connect: {why}",
        fix="Name the REST address of one of its workers, such as http://connect1:8083.",
    )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, valid = urlsplit(""), False
    if valid and parts.username is None and parts.password is None:
        return
    what = "has a user in it, whom other users of this machine see" if valid else "is no URL"
    raise ConfigError(
        "connect.url",
        f"the address of Kafka Connect {what}",
        fix=f"Write http://HOST:PORT, and set {CREDENTIAL_VARIABLE} to NAME:PASSWORD.",
    )
