"""Transforms written in SQL: Filter (a condition), Project (a list of columns), Sql (a SELECT).

    Sql: SELECT * | expression [AS name], … FROM batch [WHERE condition]

They see one row at a time. A statement that combines rows (groups, orders, limits, joins) is
refused, because rows could no longer be matched with offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import (
    Change,
    Kernel,
    OutputColumn,
    Transform,
    TypeDefinition,
    project_columns,
)
from penstock.transform.column_kernel import Copy
from penstock.transform.row import Row
from penstock.transform.row_parts import check_new_name
from penstock.transform.sql.condition_parser import (
    FilterKernel,
    compile_condition,
    parse_column,
    parse_operand,
)
from penstock.transform.sql.conditions import Constant
from penstock.transform.sql.guard import check_expression, require_columns
from penstock.transform.sql.tokens import Token, tokenize

_DROP_ALL: Final = Change(where="false", kernel=FilterKernel(Constant(value=False)), certain=True)


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps the rows for which the condition is true. Without a condition it drops all rows that it
    is applied to, which are those of its predicate, as in Kafka.
    """

    path: str
    condition: str | None

    def resolve(self, dataset: str, row: Row) -> Change:
        """Keep the rows for which the condition is true."""
        if self.condition is None:
            return _DROP_ALL
        where = f"{self.path}.condition"
        require_columns(tokenize(self.condition), row, where)
        kernel = compile_condition(self.condition, row, where)
        return Change(where=self.condition, kernel=kernel)


def _build_filter(path: str, values: Mapping[str, Any]) -> Transform:
    condition = values["condition"]
    if condition is not None:
        check_expression(condition, f"{path}.condition")
    return Filter(path, condition)


FILTER: Final = (
    TypeDefinition[Transform](
        names=("Filter", "org.apache.kafka.connect.transforms.Filter"),
        keys=(
            ConfigKey(
                "condition",
                doc="Spark SQL condition; rows for which it is true are kept. Without it, the rows "
                "that the predicate matches are dropped.",
            ),
        ),
        build=_build_filter,
    ),
)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One item of a SELECT list: its name, its expression, and the tokens of the expression."""

    name: str
    text: str
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """Computes the listed columns; reserved columns stay unchanged, behind them."""

    path: str
    items: tuple[SelectItem, ...]

    def resolve(self, dataset: str, row: Row) -> Change:
        """Replace the columns by the listed ones."""
        where = f"{self.path}.columns"
        computed = tuple(resolve_item(item, row, where) for item in self.items)
        reserved = (OutputColumn.unchanged(column) for column in row if is_reserved(column.name))
        return project_columns((*computed, *reserved), where)


def resolve_item(item: SelectItem, row: Row, path: str) -> OutputColumn:
    """Return the output column of an item of a SELECT list.

    Raises:
        ConfigError: it names a column that the rows do not have.
    """
    require_columns(item.tokens, row, path)
    operand = parse_operand(item.tokens)
    if isinstance(operand, Copy):
        return replace(OutputColumn.unchanged(row.require(operand.column, path)), name=item.name)
    type_ = None if operand is None else operand.type_in(row)
    return OutputColumn(item.name, f"({item.text})", type_, None if type_ is None else operand)


def _build_project(path: str, values: Mapping[str, Any]) -> Transform:
    where, text = f"{path}.columns", values["columns"]
    tokens = check_expression(text, where)
    return Project(path, tuple(parse_item(part, text, where) for part in split_list(tokens)))


def split_list(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the items of a SELECT list: split at the commas outside of brackets."""
    depth, part = 0, list[Token]()
    for token in tokens:
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if token.is_symbol(",") and not depth:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def parse_item(tokens: list[Token], text: str, path: str) -> SelectItem:
    """Parse an item of a SELECT list: a column, or `expression AS name`.

    Raises:
        ConfigError: an expression has no name.
    """
    match tokens:
        case [*expression, Token() as word, Token() as alias] if (
            expression and word.is_word("AS") and alias.is_name
        ):
            end = expression[-1].at + len(expression[-1].text)
            name = check_new_name(alias.name, path)
            return SelectItem(name, text[expression[0].at : end], tuple(expression))
    column = parse_column(tokens)
    if column is None:
        raise ConfigError(
            "transform.bad_expression",
            "each item of the list must be a column or `expression AS name`",
            fix="Give the expression a name with AS.",
            config_path=path,
        )
    return SelectItem(check_new_name(column, path), tokens[0].text, tuple(tokens))


PROJECT: Final = (
    TypeDefinition[Transform](
        ("Project",),
        (
            ConfigKey(
                "columns",
                required=True,
                doc="Columns and `expression AS name`, separated by commas.",
            ),
        ),
        _build_project,
    ),
)


TABLE: Final = "BATCH"

_MIXING: Final = (
    "DISTINCT", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET",
    "JOIN", "UNION", "INTERSECT", "EXCEPT", "MINUS", "LATERAL", "PIVOT", "UNPIVOT", "WINDOW",
    "TABLESAMPLE", "QUALIFY",
)  # fmt: skip
"""Keywords of SELECT that combine rows."""


@dataclass(frozen=True, slots=True)
class FilterAndProjectKernel:
    """The kernel of a condition followed by that of a projection."""

    kernels: tuple[Kernel, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the kept rows with the new columns."""
        for kernel in self.kernels:
            batch = kernel(batch)
        return batch


@dataclass(frozen=True, slots=True)
class Sql:
    """Keeps the rows of the condition, and computes the listed columns; None stands for `*`.
    Reserved columns stay unchanged, behind them.
    """

    path: str
    items: tuple[SelectItem | None, ...]
    condition: str | None

    def resolve(self, dataset: str, row: Row) -> Change:
        """Keep the rows of the condition, and replace the columns by the selected ones."""
        where = f"{self.path}.statement"
        computed: list[OutputColumn] = []
        for item in self.items:
            everything = [OutputColumn.unchanged(column) for column in row.value]
            computed += everything if item is None else [resolve_item(item, row, where)]
        reserved = (OutputColumn.unchanged(column) for column in row if is_reserved(column.name))
        change = project_columns((*computed, *reserved), where)
        if self.condition is None:
            return change
        require_columns(tokenize(self.condition), row, where)
        keeps = compile_condition(self.condition, row, where)
        both = None
        if keeps is not None and change.kernel is not None:
            both = FilterAndProjectKernel((keeps, change.kernel))
        return Change(where=self.condition, columns=change.columns, kernel=both)


def _build_sql(path: str, values: Mapping[str, Any]) -> Transform:
    where, text = f"{path}.statement", values["statement"]
    tokens = tokenize(text)
    _refuse_mixing(tokens, where)
    begin, end = _find_word(tokens, "SELECT"), _find_word(tokens, "FROM")
    table = tokens[end + 1] if end is not None and end + 1 < len(tokens) else None
    if begin != 0 or end is None or table is None or not table.is_word(TABLE):
        raise _not_a_select("it must be `SELECT … FROM batch [WHERE …]`", where)
    select_list = text[tokens[0].at + len(tokens[0].text) : tokens[end].at]
    rest = tokens[end + 2 :]
    if rest and not rest[0].is_word("WHERE"):
        raise _not_a_select(f"`{rest[0].text}` cannot follow `FROM batch`", where)
    condition = text[rest[0].at + len("WHERE") :] if rest else None
    if condition is not None:
        check_expression(condition, where)
    parts = split_list(check_expression(select_list, where))
    return Sql(
        path, tuple(_parse_item_or_star(part, select_list, where) for part in parts), condition
    )


def _parse_item_or_star(tokens: list[Token], text: str, path: str) -> SelectItem | None:
    star = len(tokens) == 1 and tokens[0].is_symbol("*")
    return None if star else parse_item(tokens, text, path)


def _find_word(tokens: Sequence[Token], word: str) -> int | None:
    """Return the index of the first such word outside of brackets."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if not depth and token.is_word(word):
            return index
    return None


def _refuse_mixing(tokens: Sequence[Token], path: str) -> None:
    for word in _MIXING:
        index = _find_word(tokens, word)
        after = tokens[index + 1 :] if index is not None else ()
        if index is None or (after and after[0].is_symbol("(")):
            continue  # a function may have such a name
        raise ConfigError(
            "transform.mixes_rows",
            f"`{tokens[index].text}` at {tokens[index].at}: a statement sees one row at a time",
            fix="Do this in the target system; for a column of that name, use backticks.",
            config_path=path,
        )


def _not_a_select(why: str, path: str) -> ConfigError:
    return ConfigError(
        "transform.not_a_select",
        f"the statement is not valid: {why}",
        fix="Write `SELECT columns FROM batch WHERE condition`.",
        config_path=path,
    )


SQL: Final = (
    TypeDefinition[Transform](
        ("Sql",),
        (ConfigKey("statement", required=True, doc="`SELECT … FROM batch [WHERE …]`."),),
        _build_sql,
    ),
)
