"""A session with a Databend server, by its own driver."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, Final
from urllib.parse import quote, urlencode

from penstock_connector import ConfigError, ConnectorError
from penstock_databases.databend_sink.failing import Coded, databend_error
from penstock_databases.databend_sink.session import ROLLBACK, Row
from penstock_databases.databend_sink.sql import Value, filled
from penstock_databases.databend_sink.upload import upload
from penstock_databases.databend_sink.url import DatabendTarget
from penstock_databases.dialect import Login

_USER: Final = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=]*")
"""Names that the driver sends as they are; it would send others with percent signs in them."""


class HttpSession:
    """One session with a server; see `Session`. It is opened again after it was lost."""

    def __init__(self, target: DatabendTarget, login: Login) -> None:
        if not _USER.fullmatch(login.user):
            raise ConfigError(
                "databend.user",
                "the driver cannot send this name of a user",
                fix="Make a user whose name has letters and digits only.",
                config_path="connection.user",
            )
        self._target, self._login = target, login
        self._driver: Any = None
        self._connected()

    def execute(self, sql: str, values: Sequence[Value] = ()) -> None:
        """Run a statement that has no rows."""
        if sql == ROLLBACK and self._driver is None:
            return  # the session was lost, and its transaction with it
        self._call("exec", filled(sql, values))

    def query(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement; returns its rows."""
        rows = self._call("query_all", filled(sql, values))
        return [tuple(None if v is None else str(v) for v in row.values()) for row in rows]

    def alone(self) -> AbstractContextManager[None]:
        """Nobody else has this session."""
        return contextlib.nullcontext()

    def upload(self, name: str, file: BinaryIO) -> None:
        """Put a file into the user's own stage."""
        upload(self._target, self._login, name, file)

    def close(self) -> None:
        """End the session."""
        driver, self._driver = self._driver, None
        if driver is not None:
            with contextlib.suppress(Exception):
                driver.close()

    def _call(self, method: str, statement: str) -> Any:
        driver = self._connected()
        try:
            return getattr(driver, method)(statement)
        except Exception as error:  # noqa: BLE001 - whatever the driver says
            told = self._told(error)
            if not Coded.of(told):  # it is the driver's: the session may be lost
                self.close()
            # the driver's own error would show the whole statement
            raise told from None

    def _connected(self) -> Any:
        if self._driver is None:
            try:
                from databend_driver import BlockingDatabendClient  # noqa: PLC0415 - 30 ms
            except ImportError:
                raise ConfigError(
                    "databend.no_driver",
                    "the package databend-driver is not installed",
                    fix="pip install databend-driver",
                ) from None
            try:
                self._driver = BlockingDatabendClient(self._address()).get_conn()
            except Exception as error:  # noqa: BLE001 - whatever the driver says
                raise self._told(error) from None
        return self._driver

    def _address(self) -> str:
        target, login = self._target, self._login
        host = f"[{target.host}]" if ":" in target.host else target.host
        options = {
            "sslmode": "enable" if target.tls else "disable",
            "connect_timeout": str(max(1, round(target.connect_timeout))),
            "page_request_timeout_secs": str(max(1, round(target.query_timeout))),
            # a lost answer makes the driver send a statement again, and it would run twice
            "retry_count": "0",
            # a setting of the session: the server itself ends what takes longer
            "max_execute_time_in_seconds": str(max(1, round(target.query_timeout))),
            "tls_ca_file": target.ca,
            "tenant": target.tenant,
            "warehouse": target.warehouse,
            "role": target.role,
        }
        query = urlencode({name: value for name, value in options.items() if value})
        password = quote(login.password, safe="")
        return f"databend://{login.user}:{password}@{host}:{target.port}/?{query}"

    def _told(self, error: Exception) -> ConnectorError:
        said = str(error)
        if self._login.password:
            for secret in {self._login.password, quote(self._login.password, safe="")}:
                said = said.replace(secret, "***")
        return databend_error(said, self._target)
