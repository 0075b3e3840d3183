"""Project: makes a row's columns from expressions, like the list of a SELECT."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform import sql
from penstock.transform.change import Change, Kind, Output, Transform, projected
from penstock.transform.column_kernel import Copy, Length, Slice, Source, Upper
from penstock.transform.guard import guarded
from penstock.transform.part import new_name
from penstock.transform.row import Row
from penstock.transform.tokens import Kind as TokenKind
from penstock.transform.tokens import Token

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Item:
    """One member of the list: its name, its expression, and the expression's tokens."""

    name: str
    text: str
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """Makes the listed columns; reserved columns stay as they are, behind them."""

    path: str
    items: tuple[Item, ...]

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        made = tuple(self._output(item, row) for item in self.items)
        reserved = (Output.kept(column) for column in row if is_reserved(column.name))
        return projected((*made, *reserved), f"{self.path}.columns")

    def _output(self, item: Item, row: Row) -> Output:
        column = _column(item.tokens)
        if column is not None:
            row.require(column, f"{self.path}.columns")
            return Output(item.name, sql.name(column), row.type_of(column), Copy(column))
        source, type_ = _function(item.tokens, row)
        return Output(item.name, f"({item.text})", type_, source)


def _column(tokens: Sequence[Token]) -> str | None:
    """Return the column that an expression is, if it is no more than that."""
    if len(tokens) != 1 or not tokens[0].is_name:
        return None
    (token,) = tokens
    quoted = token.kind is TokenKind.QUOTED
    return token.name if quoted or _PLAIN.fullmatch(token.text) else None


def _function(tokens: Sequence[Token], row: Row) -> tuple[Source | None, pa.DataType | None]:
    """Return the kernel of `function(column, number…)` and its type, where it is the same as
    Spark's.

    There is none for `lower`: where a capital sigma ends a word, the result depends on tables of
    characters that differ between Unicode versions.
    """
    function, *rest = tokens
    if [token.text for token in (*rest[:1], *rest[-1:])] != ["(", ")"]:
        return None, None
    column, *others = rest[1:-1] or [function]
    name = _column([column])
    type_ = row.type_of(name) if name is not None else None
    if name is None or not (pa.types.is_string(type_) or pa.types.is_large_string(type_)):
        return None, None
    numbers = [token.text for token in others]
    match function.text.lower():
        case "upper" if not numbers:
            return Upper(name), type_
        case "length" if not numbers:
            return Length(name), pa.int32()
        case "substring" if (found := _slice(name, numbers)) is not None:
            return found, type_
    return None, None


def _slice(column: str, arguments: Sequence[str]) -> Slice | None:
    match arguments:
        case [",", start, ",", length] if start.isdigit() and length.isdigit():
            first = max(int(start) - 1, 0)  # SQL counts from 1, and takes 0 for 1
            stop = first + int(length)
            return Slice(column, first, stop) if stop <= _LONGEST else None
    return None


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    where, text = f"{path}.columns", values["columns"]
    tokens = guarded(text, where)
    return Project(path, tuple(_item(part, text, where) for part in _split(tokens)))


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Return the members of a list: commas in brackets are not its own."""
    depth, part = 0, list[Token]()
    for token in tokens:
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if token.is_symbol(",") and not depth:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _item(tokens: list[Token], text: str, path: str) -> Item:
    match tokens:
        case [*expression, Token() as word, Token() as alias] if (
            expression and word.is_word("AS") and alias.is_name
        ):
            end = expression[-1].at + len(expression[-1].text)
            name = new_name(alias.name, path)
            return Item(name, text[expression[0].at : end], tuple(expression))
    column = _column(tokens)
    if column is None:
        raise ConfigError(
            "transform.bad_expression",
            "each member of the list is a column or `expression AS name`",
            fix="Give the expression a name with AS.",
            config_path=path,
        )
    return Item(new_name(column, path), tokens[0].text, tuple(tokens))


KINDS: Final = (
    Kind[Transform](
        ("Project",),
        (
            ConfigKey(
                "columns",
                required=True,
                doc="Columns and `expression AS name`, separated by commas.",
            ),
        ),
        _build,
    ),
)
