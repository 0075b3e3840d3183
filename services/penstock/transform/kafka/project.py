"""Project: makes a row's columns from expressions, like the list of a SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.model.columns import is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Kind, Output, Transform, projected
from penstock.transform.column_kernel import Copy
from penstock.transform.parts import new_name
from penstock.transform.row import Row
from penstock.transform.sql.condition_kernel import column_of, operand_of
from penstock.transform.sql.guard import guarded, require_columns
from penstock.transform.sql.tokens import Token


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
        where = f"{self.path}.columns"
        made = tuple(output_of(item, row, where) for item in self.items)
        reserved = (Output.kept(column) for column in row if is_reserved(column.name))
        return projected((*made, *reserved), where)


def output_of(item: Item, row: Row, path: str) -> Output:
    """Return the column that a member of a list makes.

    Raises:
        ConfigError: it is a column that the rows do not have.
    """
    require_columns(item.tokens, row, path)
    operand = operand_of(item.tokens)
    if isinstance(operand, Copy):
        return replace(Output.kept(row.require(operand.column, path)), name=item.name)
    type_ = None if operand is None else operand.type_in(row)
    return Output(item.name, f"({item.text})", type_, None if type_ is None else operand)


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    where, text = f"{path}.columns", values["columns"]
    tokens = guarded(text, where)
    return Project(path, tuple(item_of(part, text, where) for part in split_list(tokens)))


def split_list(tokens: Sequence[Token]) -> Iterator[list[Token]]:
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


def item_of(tokens: list[Token], text: str, path: str) -> Item:
    """Return a member of a list: a column, or an expression with its name.

    Raises:
        ConfigError: an expression has no name.
    """
    match tokens:
        case [*expression, Token() as word, Token() as alias] if (
            expression and word.is_word("AS") and alias.is_name
        ):
            end = expression[-1].at + len(expression[-1].text)
            name = new_name(alias.name, path)
            return Item(name, text[expression[0].at : end], tuple(expression))
    column = column_of(tokens)
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
