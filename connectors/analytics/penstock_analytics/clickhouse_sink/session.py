"""Requests to ClickHouse over HTTP, each with a deadline and a bound.

A client library would bring a second thread pool, its own retries that would send an insert again
without its token, and its own casts from Arrow: ClickHouse reads Arrow itself, and the requests are
one POST each. Redirects are not followed: the password goes to the configured server alone.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock_analytics.clickhouse_sink.config import ClickHouseSinkConfig
from penstock_analytics.clickhouse_sink.failing import clickhouse_error, server_error
from penstock_connector import ConfigError

if TYPE_CHECKING:
    import httpx

Row = list[Any]

_CONNECT_WITHIN: Final = 10.0
_ANSWER_MOST: Final = 16 << 20
"""Bytes of an answer: rows of catalogs and of the ledger, never those of tables."""

_OLDEST: Final = (23, 8)
"""`is_deleted` of ReplacingMergeTree, Arrow and tokens are there since; older ones were not run."""

_ALWAYS: Final = {
    "wait_end_of_query": "1",  # an error comes instead of an answer, not in the middle of one
    "async_insert": "0",  # its answer would come before the rows are there
    "output_format_json_quote_64bit_integers": "1",
    "select_sequential_consistency": "1",  # replicas: what was written is read
}


class Session:
    """Requests to one server, by several threads at once."""

    def __init__(self, config: ClickHouseSinkConfig) -> None:
        self._config, self.where = config, config.where
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()

    def require_version(self) -> None:
        """Refuse a server that is too old.

        Raises:
            ConfigError: `clickhouse.too_old`.
        """
        version = str(self._rows("SELECT version()", plain=True)[0][0])
        parts = version.split(".")
        if not parts[0].isdigit() or tuple(int(one) for one in parts[:2]) < _OLDEST:
            raise ConfigError(
                "clickhouse.too_old",
                f"{self.where}: this is ClickHouse {version[:40]}, and "
                f"{_OLDEST[0]}.{_OLDEST[1]} is the oldest that can be written to exactly once",
                fix="Upgrade the server.",
                config_path="hostname",
            )

    def query(self, sql: str) -> list[Row]:
        """Run a statement; returns its rows, numbers of 64 bits as text.

        Raises:
            RetriableError: `clickhouse.answer`: what came is no JSON of ClickHouse.
        """
        return self._rows(sql)

    def _rows(self, sql: str, *, plain: bool = False) -> list[Row]:
        body = self._ask({}, f"{sql} FORMAT JSONCompact".encode(), plain=plain)
        try:
            rows: list[Row] = json.loads(body)["data"]
        except (ValueError, KeyError, TypeError, RecursionError):
            said = body[:100].decode(errors="replace")
            raise clickhouse_error("answer", self.where, f"no JSON with rows: {said!r}") from None
        return rows

    def execute(self, sql: str, settings: Mapping[str, str] | None = None) -> None:
        """Run a statement that has no rows."""
        self._ask(settings or {}, sql.encode(), ours=True)

    def insert(self, sql: str, data: bytes, settings: Mapping[str, str]) -> None:
        """Run an INSERT whose rows are the body."""
        self._ask({**settings, "query": sql}, data, ours=True)

    def close(self) -> None:
        """End the connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(
        self,
        parameters: Mapping[str, str],
        body: bytes,
        *,
        ours: bool = False,
        plain: bool = False,
    ) -> bytes:
        """Return the body of an answer.

        Args:
            parameters: Those of the URL.
            body: That of the request.
            ours: The answer must be ClickHouse's, though it says nothing.
            plain: No settings are sent: an old server does not know them all.
        """
        import httpx  # noqa: PLC0415 - 60 ms, and only tasks need it

        deadline = time.monotonic() + self._config.timeout
        answer = bytearray()
        limit = {"max_execution_time": str(max(1, round(self._config.timeout)))}
        settings = {} if plain else {**_ALWAYS, **self._config.settings, **limit, **parameters}
        try:
            with self._opened().stream("POST", "/", params=settings, content=body) as response:
                for part in response.iter_bytes():
                    answer += part
                    if len(answer) > _ANSWER_MOST or time.monotonic() > deadline:
                        raise clickhouse_error("answer", self.where, "it is too long or too slow")
        except httpx.ProxyError as error:
            raise clickhouse_error("unreachable", self.where, f"the proxy says: {error}") from None
        except httpx.HTTPError as error:
            kind = "tls" if "CERTIFICATE_VERIFY" in str(error) else "unreachable"
            said = str(error) or type(error).__name__
            raise clickhouse_error(kind, self.where, said) from None
        if response.is_redirect:
            told = f"it leads to {response.headers.get('location', '')[:100]!r}"
            raise clickhouse_error("redirect", self.where, told)
        code = response.headers.get("x-clickhouse-exception-code", "")
        if code or not response.is_success:
            said = self._without_secrets(bytes(answer[:4000]).decode(errors="replace"))
            number = int(code) if code.isdigit() else 0
            raise server_error(self.where, said, number, response.status_code)
        if ours and not any(name.startswith("x-clickhouse-") for name in response.headers):
            said = bytes(answer[:100]).decode(errors="replace")
            raise clickhouse_error("answer", self.where, f"it is not ClickHouse's: {said!r}")
        return bytes(answer)

    def _opened(self) -> httpx.Client:
        import httpx  # noqa: PLC0415 - as above

        with self._lock:
            if self._client is None:
                config = self._config
                headers = {
                    "X-ClickHouse-User": config.user.encode(),
                    "X-ClickHouse-Key": config.secret.encode(),
                    "X-ClickHouse-Database": config.place.database.encode(),
                }
                self._client = httpx.Client(
                    base_url=config.place.url,
                    headers=[(name.encode(), value) for name, value in headers.items()],
                    timeout=httpx.Timeout(config.timeout, connect=_CONNECT_WITHIN),
                    limits=httpx.Limits(max_connections=config.inserts_in_flight + 1),
                    verify=self._tls(),
                    proxy=config.proxy or None,
                    trust_env=False,  # what a worker was started with decides nothing here
                    follow_redirects=False,
                    event_hooks={"request": [self._name_the_server]},
                )
            return self._client

    def _name_the_server(self, request: httpx.Request) -> None:
        """Ask for the certificate of another name than the host's, where that is wanted."""
        if self._config.server_name:
            request.extensions = {**request.extensions, "sni_hostname": self._config.server_name}

    def _tls(self) -> ssl.SSLContext | bool:
        if not self._config.place.tls:
            return False
        try:
            return ssl.create_default_context(cafile=self._config.ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                "clickhouse.ca_file",
                f"{self._config.ca_file}: this is no file with certificates: {error}",
                fix="Set `ssl.ca.file` to a file in PEM format.",
                config_path="ssl.ca.file",
            ) from None

    def _without_secrets(self, said: str) -> str:
        secret = self._config.secret
        return said.replace(secret, "***") if secret else said
