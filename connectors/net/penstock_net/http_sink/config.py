"""The keys of `http-sink`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock_connector import ConfigError, key
from penstock_net.http_sink.template import Template, in_address, in_body, in_key
from penstock_net.web.converting import check_converter, content_type_of, require_registry
from penstock_net.web.headers import is_header
from penstock_net.web.keys import WebConfig, invalid

_STATUS: Final = re.compile(r"[1-5](\d\d|xx)")
_MOST_PARALLEL: Final = 64
"""Requests at once. Each has a connection and a thread of its own."""


@dataclass(frozen=True)
class HttpSinkConfig(WebConfig):
    """What is sent, how many rows at once, and what an answer means."""

    method: str = key(
        "POST",
        doc="How it is sent.",
        choices=("POST", "PUT", "PATCH", "DELETE"),
        group="Request",
    )
    format: str = key(
        "json",
        doc="Form of a body: `json` is an object, or an array of several; `jsonl` a line for each "
        "row; `template` is that of `body`.",
        choices=("json", "jsonl", "template"),
        group="Body",
    )
    value_converter: str = key(
        "",
        doc="Converter that makes the body of a row, instead of `format`: a name, or Kafka "
        "Connect's class (`penstock_converters/README.md` has all), or a converter of a plugin. "
        "Only with one row a request.",
        group="Body",
    )
    value_converter_keys: Mapping[str, str] = key(
        doc="Keys of the converter.", name="value.converter", group="Body"
    )
    body: str = key(
        "",
        doc="What a row becomes, for `template`: `${column}` is replaced as inside of a JSON text, "
        "`${row}` by the row.",
        group="Body",
    )
    body_begin: str = key("", doc="Before the rows of a `template`.", group="Body")
    body_separator: str = key("", doc="Between the rows of a `template`.", group="Body")
    body_end: str = key("", doc="Behind the rows of a `template`.", group="Body")
    content_type: str = key("", doc="Content-Type. Empty: that of the format.", group="Body")
    reserved_columns: bool = key(False, doc="Send columns like `__op`, too.", group="Body")
    batch_rows: int = key(1, doc="Most rows of a request.", group="Batches")
    batch_bytes: int = key(
        1 << 20,
        doc="Most bytes of a body, unless a single row is larger.",
        type="size",
        group="Batches",
    )
    row_headers: tuple[str, ...] = key(
        (),
        doc="Headers that are taken from a row's `__headers`; `*` takes all. Only with one row a "
        "request.",
        group="Request",
    )
    idempotency_header: str = key(
        "Idempotency-Key", doc="Header by which a request is known again.", group="Repeats"
    )
    idempotency_key: str = key(
        "batch",
        doc="Its value: `batch` numbers requests within a life of the task; a text with "
        "`${column}` names a row for ever (one row a request); `none` sends none.",
        group="Repeats",
    )
    parallel: int = key(
        1, doc="Requests at once; more than one needs `order.columns`.", group="Order"
    )
    order_columns: tuple[str, ...] = key(
        (), doc="Rows with the same values in these stay in their order.", group="Order"
    )
    retry_statuses: tuple[str, ...] = key(
        ("408", "425", "429", "5xx"), doc="Statuses after which it is sent again.", group="Retries"
    )
    ok_statuses: tuple[str, ...] = key(
        (),
        doc="Statuses that count as taken, beside 2xx; for instance 409 of a server that knows the "
        "row already.",
        group="Retries",
    )
    staging_bytes: int = key(
        256 << 20,
        doc="Most bytes of rows that wait for their transaction.",
        type="size",
        group="Limits",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        if self.batch_rows < 1 or self.batch_bytes < 1 or self.staging_bytes < 1:
            raise invalid("batch.rows", "and `batch.bytes`, `staging.bytes` must be at least 1")
        if not 1 <= self.parallel <= _MOST_PARALLEL:
            raise invalid("parallel", f"must be from 1 to {_MOST_PARALLEL}")
        if self.parallel > 1 and not self.order_columns:
            raise _needs("order.columns", "parallel", "it says whose order must be kept")
        if (self.format == "template") != bool(self.body):
            raise _needs("body", "format=template", "they belong together")
        if self.batch_rows > 1 and (self.row_headers or self.names_rows):
            raise invalid("batch.rows", "must be 1 with `row.headers` or a key of each row")
        for status in (*self.retry_statuses, *self.ok_statuses):
            if not _STATUS.fullmatch(status):
                raise invalid("retry.statuses", f"and `ok.statuses` hold no {status!r}: 429, 5xx")
        if not is_header(self.idempotency_header, ""):
            raise invalid("idempotency.header", "is no name of a header")
        self._check_converter()

    def _check_converter(self) -> None:
        """Refuse a converter that does not exist, and keys that have no meaning beside one."""
        check_converter(self.value_converter, self.value_converter_keys)
        if self.value_converter and self.batch_rows > 1:
            raise invalid("batch.rows", "must be 1 with `value.converter`: a body is one message")
        if self.value_converter and (self.format != "json" or self.reserved_columns):
            name = "reserved.columns" if self.format == "json" else "format"
            raise invalid(name, "means nothing with `value.converter`, which makes the body")

    def require_reach(self) -> None:
        """Refuse what `WebConfig` refuses, and a schema registry that may not be reached."""
        super().require_reach()
        require_registry(self.reach, self.value_converter_keys)

    @property
    def names_rows(self) -> bool:
        """Return whether each row has a key of its own."""
        return "${" in self.idempotency_key

    def address(self) -> Template:
        """Return what makes addresses."""
        return Template(self.url, in_address)

    def row_body(self) -> Template:
        """Return what makes bodies of a template."""
        return Template(self.body, in_body)

    def row_key(self) -> Template:
        """Return what makes keys of rows."""
        return Template(self.idempotency_key, in_key)

    def type_of_content(self) -> str:
        """Return the Content-Type."""
        if self.content_type:
            return self.content_type
        if self.value_converter:
            return content_type_of(self.value_converter)
        return "application/x-ndjson" if self.format == "jsonl" else "application/json"

    def is_retried(self, status: int) -> bool:
        """Return whether a status is one after which it is sent again."""
        return _among(status, self.retry_statuses)

    def is_ok(self, status: int) -> bool:
        """Return whether a status means that the rows were taken."""
        return 200 <= status < 300 or _among(status, self.ok_statuses)


def _among(status: int, listed: tuple[str, ...]) -> bool:
    return bool({str(status), f"{status // 100}xx"} & set(listed))


def _needs(name: str, by: str, why: str) -> ConfigError:
    return ConfigError(
        "config.missing",
        f"`{by}` needs `{name}`: {why}",
        fix=f"Set `{name}`.",
        config_path=name,
    )
