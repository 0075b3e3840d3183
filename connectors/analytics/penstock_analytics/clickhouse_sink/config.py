"""The keys of `clickhouse-sink`: those of every table sink, and those of ClickHouse's own sink for
Kafka Connect with their meanings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import quote, unquote, urlsplit

from penstock_analytics.clickhouse_sink.failing import PassingError
from penstock_analytics.clickhouse_sink.peer_keys import peer_key
from penstock_analytics.clickhouse_sink.sql import NAMING, table_sql
from penstock_connector import CompatibilityKey, ConfigError, ConnectorError, key
from penstock_connector.connection import Retry
from penstock_connector.tables.config import TableKeys
from penstock_connector.tables.names import TableId, table_parts

_LONGEST_S: Final = 100.0
"""Seconds of a request: the host waits for 120 for a transaction."""

_OURS: Final = frozenset({
    "query", "database", "user", "password", "session_id", "session_check", "query_id",
    "wait_end_of_query", "async_insert", "insert_deduplicate", "insert_deduplication_token",
    "deduplicate_insert", "deduplicate_insert_select", "insert_select_deduplicate",
    "max_execution_time", "output_format_json_quote_64bit_integers", "default_format", "readonly",
    "select_sequential_consistency", "min_insert_block_size_rows", "min_insert_block_size_bytes",
    "max_insert_threads", "max_block_size", "compress", "decompress",
    "input_format_skip_unknown_fields",
})  # fmt: skip
"""Settings that are set for each statement: others would lose rows, or write them twice."""

_SETTING: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a ClickHouse is."""

    host: str
    port: int
    tls: bool
    database: str

    @property
    def url(self) -> str:
        """The address that requests go to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


@dataclass(frozen=True)
class ClickHouseSinkConfig(TableKeys):
    """Where the tables are, and how rows are written."""

    code_prefix: ClassVar[str] = "clickhouse"
    other_codes: ClassVar[Mapping[str, str]] = {"incompatible": "clickhouse.column_type"}

    hostname: str = key("", doc="Host of the server.", group="Connection", importance="high")
    port: int = key(
        0,
        doc="Port of its HTTP interface; 8123, or 8443 with `ssl`, when 0.",
        group="Connection",
        importance="high",
    )
    ssl: bool = key(False, doc="Talk to it by HTTPS.", group="Connection")
    connection_url: str = key(
        "",
        doc="http://host:8123/database or https://…: instead of `hostname`, `port`, `ssl` and "
        "`database`.",
        group="Connection",
        importance="low",
    )
    database: str = key(
        "",
        doc="Database of tables whose name has none, and of the commit rows; `default` when empty.",
        group="Connection",
    )
    username: str = key("", doc="User; `default` when empty.", group="Connection")
    password: str = key("", doc="Password of the user.", type="password", group="Connection")
    connection_user: str = key(
        "", doc="The same as `username`.", group="Connection", importance="low"
    )
    connection_password: str = key(
        "", doc="The same as `password`.", type="password", group="Connection", importance="low"
    )
    ca_file: str = key(
        "",
        doc="File with the certificates that the server's is signed with; those of the system when "
        "empty.",
        name="ssl.ca.file",
        group="Connection",
    )
    server_name: str = key(
        "",
        doc="Name that the server's certificate has, where it is not `hostname`.",
        name="ssl_socket_sni",
        group="Connection",
        importance="low",
    )
    proxy_type: str = key(
        "",
        doc="`http`: requests are made by a proxy; `direct` or empty: they are not.",
        name="proxyType",
        group="Connection",
        importance="low",
    )
    proxy_host: str = key(
        "", doc="Host of the proxy.", name="proxyHost", group="Connection", importance="low"
    )
    proxy_port: int = key(
        -1, doc="Port of the proxy.", name="proxyPort", group="Connection", importance="low"
    )
    timeout_seconds: int = key(
        30,
        doc="Most seconds of a request, 1 to 100.",
        name="timeoutSeconds",
        group="Connection",
    )
    clickhouse_settings: str = key(
        "",
        doc="Settings of every statement: name=value, name=value.",
        name="clickhouseSettings",
        group="Connection",
    )
    retry_count: int = key(
        -1,
        doc="The same as `max.retries`, before which it counts; -1: it does not.",
        name="retryCount",
        group="Retries",
        importance="low",
    )
    exactly_once: bool = key(
        True,
        doc="Rows are staged in ClickHouse, and come into their tables with the offsets. false: "
        "at least once, by one insert instead of two, into tables of any engine.",
        name="exactlyOnce",
        group="Writes",
        importance="high",
    )
    inserts_in_flight: int = key(
        4,
        doc="Most inserts of a task at a time, 1 to 64.",
        name="inserts.in.flight",
        group="Writes",
    )
    insert_rows: int = key(
        500_000,
        doc="Most rows of an insert, 1 to 1,000,000: one block of ClickHouse.",
        name="insert.max.rows",
        group="Writes",
        importance="low",
    )
    null_collections: str = key(
        "reject",
        doc="What becomes of an array, a map or a structure that is null, which ClickHouse has "
        "not: `reject` the row, or write an `empty` one.",
        choices=("reject", "empty"),
        name="null.collections",
        group="Data mapping",
    )
    topic_tables: str = key(
        "",
        doc="Tables of topics that `table.name.format` does not fit: topic=table, topic=table.",
        name="topic2TableMap",
        group="Data mapping",
    )
    topic_has_database: bool = key(
        False,
        doc="The topic is a database and a table, parted by `dbTopicSplitChar`.",
        name="enableDbTopicSplit",
        group="Data mapping",
        importance="low",
    )
    topic_parted_by: str = key(
        "",
        doc="What parts them; the first one counts.",
        name="dbTopicSplitChar",
        group="Data mapping",
        importance="low",
    )
    version_column: str = key(
        "_version",
        doc="Column of tables that are made for upserts: of rows with one key the highest counts.",
        name="version.column",
        group="DDL",
        importance="low",
    )
    deleted_column: str = key(
        "is_deleted",
        doc="Column of such tables that is 1 in the row of a deletion.",
        name="deleted.column",
        group="DDL",
        importance="low",
    )
    structs_as_json: bool = key(
        False,
        doc="Columns that are made for structures are JSON, not Tuple.",
        name="auto.evolve.struct.to.json",
        group="DDL",
        importance="low",
    )

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of another key of ClickHouse's own sink."""
        return peer_key(name, value)

    @property
    def place(self) -> Place:
        """Where ClickHouse is.

        Raises:
            ConfigError: `clickhouse.url`.
        """
        if not self.connection_url:
            port = self.port or (8443 if self.ssl else 8123)
            return Place(self.hostname, port, self.ssl, self.database or "default")
        try:
            url = urlsplit(self.connection_url)
            tls, given = url.scheme == "https", url.port
        except ValueError:
            raise self._bad_url() from None
        if (
            url.scheme not in {"http", "https"}
            or not url.hostname
            or url.query
            or "@" in url.netloc
        ):
            raise self._bad_url()
        database = unquote(url.path.strip("/")) or self.database or "default"
        return Place(url.hostname, given or (8443 if tls else 8123), tls, database)

    @property
    def where(self) -> str:
        """The server, for people."""
        return f"clickhouse {self.place.host}:{self.place.port}"

    @property
    def user(self) -> str:
        """Who logs in."""
        return self.username or self.connection_user or "default"

    @property
    def secret(self) -> str:
        """The password."""
        return self.password or self.connection_password

    @property
    def timeout(self) -> float:
        """Seconds of a request."""
        return float(self.timeout_seconds)

    @property
    def settings(self) -> dict[str, str]:
        """Settings of every statement."""
        return dict(_pairs(self.clickhouse_settings))

    @property
    def proxy(self) -> str:
        """Address of the proxy; empty for none."""
        if self.proxy_type.lower() != "http":
            return ""
        return f"http://{quote(self.proxy_host, safe='.:[]')}:{self.proxy_port}"

    @property
    def changes_rows(self) -> bool:
        """Whether rows are replaced or deleted, by versions of ReplacingMergeTree."""
        return self.insert_mode == "upsert" or self.delete_enabled

    @property
    def write_retry(self) -> Retry:
        """How often a write is tried: it changes nothing when it is made twice."""
        retries = self.retry_count if self.retry_count >= 0 else self.max_retries
        return Retry(
            retries + 1, 0.1, self.retry_backoff_ms, within_s=90.0, jitter=True, errors=PassingError
        )

    def require_reach(self) -> None:
        """Refuse a server, proxy or file that may not be reached."""
        self.reach.require_host(self.place.host, "hostname")
        if self.proxy:
            self.reach.require_host(self.proxy_host, "proxyHost")
        self.reach.require_path(self.ca_file, "ssl.ca.file")

    def table(self, dataset: str) -> TableId:
        """Return the table of a dataset.

        Raises:
            ConfigError: `clickhouse.table_name`, `sql.bad_name`.
        """
        named = dict(_pairs(self.topic_tables)).get(dataset)
        if named is not None:
            parts = list(NAMING.parts(named))
        elif self.topic_has_database:
            before, parted, after = dataset.partition(self.topic_parted_by)
            parts = [before, after] if parted else [dataset]
        else:
            parts = table_parts(self.table_name_format, dataset, NAMING)
        if len(parts) > 2 or not all(parts):
            raise ConfigError(
                "clickhouse.table_name",
                f"{'.'.join(parts)[:200]!r} is no table: ClickHouse has databases with tables in "
                "them",
                fix='Set `table.name.format` to "${topic}" in quotes, or name the table in '
                "`topic2TableMap`.",
                config_path="table.name.format",
                dataset=dataset,
            )
        database, name = parts if len(parts) > 1 else (self.place.database, parts[0])
        table = TableId(name, catalog=database)
        table_sql(table)  # what cannot be a name is refused before anything is done
        return table

    def problems(self) -> Iterator[ConnectorError]:
        """Yield what is wrong with values that have the right type. Pure."""
        yield from self._place_problems()
        yield from self._bounds()
        yield from self._settings_problems()
        if self.topic_has_database and not self.topic_parted_by:
            yield self.wrong(
                "split",
                "`enableDbTopicSplit` has to know what parts database and table",
                "Set `dbTopicSplitChar`, for instance to _",
                "dbTopicSplitChar",
            )
        if self.version_column == self.deleted_column:
            yield self.wrong(
                "columns",
                "`version.column` and `deleted.column` are one column",
                "Name two.",
                "deleted.column",
            )
        yield from super().problems()

    def _place_problems(self) -> Iterator[ConnectorError]:
        if bool(self.connection_url) == bool(self.hostname):
            word = "both are" if self.hostname else "neither is"
            yield self.wrong(
                "place",
                f"the server is named by `hostname` or by `connection.url`: {word} set",
                "Set `hostname`, for instance to localhost.",
                "hostname",
            )
            return
        try:
            NAMING.quoted(self.place.database)
        except ConfigError as error:
            yield error
        if self.connection_url and (self.port or self.ssl):
            yield self.wrong(
                "place",
                "`connection.url` has the port, and `https` in it",
                "Leave `port` and `ssl` out.",
                "port",
            )
        for one, other in (("username", "connection_user"), ("password", "connection_password")):
            if getattr(self, one) and getattr(self, other):
                path = other.replace("_", ".")
                yield self.wrong(
                    "login", f"`{one}` and `{path}` are the same key", f"Leave `{path}` out.", path
                )
        kind = self.proxy_type.lower()
        if kind not in {"", "http", "direct", "ignore"}:
            yield self.wrong(
                "proxy", f"there are no proxies of the type {kind!r} here", "Set http.", "proxyType"
            )
        if kind == "http" and not (self.proxy_host and 0 < self.proxy_port < 1 << 16):
            yield self.wrong(
                "proxy",
                "`proxyType=http` needs a proxy",
                "Set `proxyHost` and `proxyPort`.",
                "proxyHost",
            )
        if kind != "http" and self.proxy_host:
            yield self.wrong(
                "proxy",
                "`proxyHost` has no effect without `proxyType`",
                "Set `proxyType=http`, or leave `proxyHost` out.",
                "proxyType",
            )
        if (self.ca_file or self.server_name) and not self.place.tls:
            yield self.wrong(
                "tls_unused",
                "`ssl.ca.file` and `ssl_socket_sni` have no effect without `ssl`",
                "Set `ssl=true`.",
                "ssl",
            )

    def _bounds(self) -> Iterator[ConnectorError]:
        bounds = {
            "port": (self.port, 0, 65535),
            "timeoutSeconds": (self.timeout_seconds, 1, round(_LONGEST_S)),
            "inserts.in.flight": (self.inserts_in_flight, 1, 64),
            "insert.max.rows": (self.insert_rows, 1, 1_000_000),
        }
        for name, (value, least, most) in bounds.items():
            if not least <= value <= most:
                yield self.wrong(
                    "bounds",
                    f"`{name}` is {value}, and it is {least} to {most}",
                    f"Set it to {max(least, min(most, value))}.",
                    name,
                )

    def _settings_problems(self) -> Iterator[ConnectorError]:
        for path in ("clickhouseSettings", "topic2TableMap"):
            text = self.clickhouse_settings if path == "clickhouseSettings" else self.topic_tables
            bad = [item for item in text.split(",") if item.strip() and not _pair(item)]
            if bad:
                yield self.wrong(
                    "pairs",
                    f"`{path}` has {bad[0].strip()[:80]!r}, and its parts are name=value",
                    "Write name=value, name=value.",
                    path,
                )
        for name in self.settings:
            if name.lower() in _OURS or not _SETTING.fullmatch(name):
                yield self.wrong(
                    "setting_refused",
                    f"the setting {name[:80]!r} is not for `clickhouseSettings`",
                    "Leave it out: rows could be lost or come twice, or it is none.",
                    "clickhouseSettings",
                )

    def _bad_url(self) -> ConfigError:
        return self.wrong(
            "url",
            "`connection.url` is no URL of a ClickHouse, or has more in it than that",
            "Write http://host:8123/database, and the login in `username` and `password`.",
            "connection.url",
        )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for item in text.split(","):
        pair = _pair(item)
        if pair:
            yield pair


def _pair(item: str) -> tuple[str, str] | None:
    name, parted, value = (part.strip() for part in item.partition("="))
    return (name, value) if name and parted and value else None
