"""The keys of `http-source`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock_connector import ConfigError, key
from penstock_net.http_source.columns import declared
from penstock_net.http_source.pointer import Pointer, field_pointer
from penstock_net.web.converting import check_converter, require_registry
from penstock_net.web.keys import WebConfig, invalid

PLACE = "${position}"
"""What stands for the position in `url` and `body`."""


@dataclass(frozen=True)
class HttpSourceConfig(WebConfig):
    """What is asked, how the next question follows from an answer, and what its rows are."""

    method: str = key("GET", doc="Method of the request.", choices=("GET", "POST"), group="Request")
    body: str = key("", doc="What is sent with POST.", group="Request")
    poll_interval: float = key(
        10.0, doc="Time between two looks for new rows.", type="duration", group="Reading"
    )
    tail: bool = key(True, doc="Go on when all is read; `false` reads once.", group="Reading")
    mode: str = key(
        "snapshot",
        doc="How what is new is found: all rows whenever the answer changed, by a growing field, "
        "by number of page, by number of rows, by a link to the next page.",
        choices=("snapshot", "cursor", "page", "offset", "next"),
        group="Reading",
    )
    position_param: str = key(
        "",
        doc="Parameter of the query that has the position; without it, `${position}` in `url` or "
        "`body` is replaced by it.",
        group="Reading",
    )
    position_initial: str = key(
        "", doc="Position of the first request. Empty: page 1, row 0, no cursor.", group="Reading"
    )
    cursor_field: str = key(
        "", doc="Field that grows, for `cursor`: a name or a JSON pointer.", group="Reading"
    )
    next_pointer: str = key(
        "",
        doc="JSON pointer to the next page's address or token in an answer. Empty: the header "
        "`Link`.",
        group="Reading",
    )
    page_size: int = key(
        0, doc="Rows of a full page; fewer end a round. 0: not known.", group="Reading"
    )
    page_size_param: str = key(
        "", doc="Parameter of the query that has the page's size.", group="Reading"
    )
    format: str = key(
        "auto",
        doc="Format of an answer; `auto` goes by its Content-Type. `body`, with `value.converter`: "
        "the whole answer is one message.",
        choices=("auto", "json", "jsonl", "csv", "body"),
        group="Rows",
    )
    value_converter: str = key(
        "",
        doc="Converter of rows: a name, or Kafka Connect's class "
        "(`penstock_converters/README.md` has all), or a converter of a plugin. Empty: none; "
        "rows are JSON or CSV.",
        group="Rows",
    )
    value_converter_keys: Mapping[str, str] = key(
        doc="Keys of the converter.", name="value.converter", group="Rows"
    )
    rows_pointer: str = key(
        "", doc="JSON pointer to the rows in an answer. Empty: all of it.", group="Rows"
    )
    csv_delimiter: str = key(",", doc="One character, between the columns of CSV.", group="Rows")
    columns: tuple[str, ...] = key(
        (),
        doc="Columns as `name:type`, without others. Empty: those that come, with types found in "
        "the rows.",
        group="Rows",
    )
    key_columns: tuple[str, ...] = key((), doc="Columns that identify a row.", group="Rows")
    invalid_rows: str = key(
        "fail",
        doc="What becomes of rows that cannot be read.",
        choices=("fail", "dead-letter"),
        group="Rows",
    )
    empty_statuses: tuple[str, ...] = key(
        (), doc="Statuses that mean that there are no rows, beside 204.", group="Rows"
    )
    dataset: str = key("", doc="Dataset of the rows. Empty: the connector's `topic`.")

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        Pointer(self.rows_pointer, "rows.pointer")
        Pointer(self.next_pointer, "next.pointer")
        field_pointer(self.cursor_field, "cursor.field")
        declared(self.columns)
        if self.body and self.method != "POST":
            raise invalid("body", "is only sent with `method=POST`")
        if self.poll_interval < 0 or self.page_size < 0:
            raise invalid("poll.interval" if self.poll_interval < 0 else "page.size", "is negative")
        if len(self.csv_delimiter) != 1 or not self.csv_delimiter.isascii():
            raise invalid("csv.delimiter", "must be one ASCII character")
        if not all(s.isascii() and s.isdigit() and len(s) == 3 for s in self.empty_statuses):
            raise invalid("empty.statuses", "must be statuses like 404")
        self._check_mode()
        self._check_converter()

    def _check_converter(self) -> None:
        """Refuse a converter that does not exist, and keys that have no meaning beside one."""
        check_converter(self.value_converter, self.value_converter_keys)
        if not self.value_converter:
            if self.format == "body":
                raise _missing("value.converter", "format=body")
            return
        if self.mode == "cursor":
            raise invalid("mode", "`cursor` reads a field of JSON, which a converter may not give")
        if self.format == "csv":
            raise invalid("format", "`csv` has columns, and no messages for `value.converter`")
        if self.columns:
            raise invalid("columns", "are those of `value.converter`")

    def require_reach(self) -> None:
        """Refuse what `WebConfig` refuses, and a schema registry that may not be reached."""
        super().require_reach()
        require_registry(self.reach, self.value_converter_keys)

    def _check_mode(self) -> None:
        """Refuse a mode without what it needs."""
        if self.mode == "cursor" and not self.cursor_field:
            raise _missing("cursor.field", "mode=cursor")
        if self.mode in {"cursor", "page", "offset"} and not self.carries_position:
            raise _missing("position.param", f"mode={self.mode}")
        if self.mode in {"page", "offset"} and not (self.position_initial or "0").isdigit():
            raise invalid("position.initial", "must be a whole number")
        if self.page_size_param and not self.page_size:
            raise _missing("page.size", "page.size.param")
        if self.mode == "snapshot" and self.carries_position:
            raise invalid("position.param", "means nothing in mode `snapshot`")

    @property
    def carries_position(self) -> bool:
        """Return whether a request says where it goes on."""
        return bool(self.position_param) or PLACE in self.url or PLACE in self.body

    @property
    def first_number(self) -> int:
        """The first page, or the first row."""
        return int(self.position_initial or ("1" if self.mode == "page" else "0"))


def _missing(name: str, needed_by: str) -> ConfigError:
    return ConfigError(
        "config.missing",
        f"`{needed_by}` needs `{name}`",
        fix=f"Set `{name}`.",
        config_path=name,
    )
