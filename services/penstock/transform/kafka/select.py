"""Sql: one SELECT over the batch.

    SELECT * | expression [AS name], … FROM batch [WHERE condition]

It sees one row at a time: what mixes rows (groups, orders, limits, joins) is refused, because rows
and offsets could no longer be matched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Kernel, Kind, Output, Transform, projected
from penstock.transform.kafka.project import Item, item_of, output_of, split_list
from penstock.transform.row import Row
from penstock.transform.sql.condition_kernel import compile_condition
from penstock.transform.sql.guard import guarded, require_columns
from penstock.transform.sql.tokens import Token, tokens_of

TABLE: Final = "BATCH"

_MIXING: Final = (
    "DISTINCT", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET",
    "JOIN", "UNION", "INTERSECT", "EXCEPT", "MINUS", "LATERAL", "PIVOT", "UNPIVOT", "WINDOW",
    "TABLESAMPLE", "QUALIFY",
)  # fmt: skip
"""Words of SELECT that make of rows anything but rows."""


@dataclass(frozen=True, slots=True)
class Both:
    """The kernel of a condition and then that of the columns."""

    kernels: tuple[Kernel, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows after each of them."""
        for kernel in self.kernels:
            batch = kernel(batch)
        return batch


@dataclass(frozen=True, slots=True)
class Select:
    """Keeps the rows of the condition, and makes the listed columns; None stands for `*`. Reserved
    columns stay as they are, behind them.
    """

    path: str
    items: tuple[Item | None, ...]
    condition: str | None

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        where = f"{self.path}.statement"
        made: list[Output] = []
        for item in self.items:
            everything = [Output.kept(column) for column in row.value]
            made += everything if item is None else [output_of(item, row, where)]
        reserved = (Output.kept(column) for column in row if is_reserved(column.name))
        change = projected((*made, *reserved), where)
        if self.condition is None:
            return change
        require_columns(tokens_of(self.condition), row, where)
        keeps = compile_condition(self.condition, row, where)
        both = None
        if keeps is not None and change.kernel is not None:
            both = Both((keeps, change.kernel))
        return Change(where=self.condition, columns=change.columns, kernel=both)


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    where, text = f"{path}.statement", values["statement"]
    tokens = tokens_of(text)
    _refuse_mixing(tokens, where)
    begin, end = _top(tokens, "SELECT"), _top(tokens, "FROM")
    table = tokens[end + 1] if end is not None and end + 1 < len(tokens) else None
    if begin != 0 or end is None or table is None or not table.is_word(TABLE):
        raise _no_select("it is `SELECT … FROM batch`, perhaps with WHERE", where)
    listed = text[tokens[0].at + len(tokens[0].text) : tokens[end].at]
    rest = tokens[end + 2 :]
    if rest and not rest[0].is_word("WHERE"):
        raise _no_select(f"`{rest[0].text}` cannot follow `FROM batch`", where)
    condition = text[rest[0].at + len("WHERE") :] if rest else None
    if condition is not None:
        guarded(condition, where)
    parts = split_list(guarded(listed, where))
    return Select(path, tuple(_item(part, listed, where) for part in parts), condition)


def _item(tokens: list[Token], text: str, path: str) -> Item | None:
    star = len(tokens) == 1 and tokens[0].is_symbol("*")
    return None if star else item_of(tokens, text, path)


def _top(tokens: Sequence[Token], word: str) -> int | None:
    """Return where a word stands outside of brackets first."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if not depth and token.is_word(word):
            return place
    return None


def _refuse_mixing(tokens: Sequence[Token], path: str) -> None:
    for word in _MIXING:
        place = _top(tokens, word)
        after = tokens[place + 1 :] if place is not None else ()
        if place is None or (after and after[0].is_symbol("(")):
            continue  # a function may have such a name
        raise ConfigError(
            "transform.mixes_rows",
            f"`{tokens[place].text}` at {tokens[place].at}: a statement sees one row at a time",
            fix="Leave it to the sink's system; for a column of that name, use backticks.",
            config_path=path,
        )


def _no_select(why: str, path: str) -> ConfigError:
    return ConfigError(
        "transform.not_a_select",
        f"the statement cannot be run: {why}",
        fix="Write `SELECT columns FROM batch WHERE condition`.",
        config_path=path,
    )


KINDS: Final = (
    Kind[Transform](
        ("Sql",),
        (ConfigKey("statement", required=True, doc="`SELECT … FROM batch [WHERE …]`."),),
        _build,
    ),
)
