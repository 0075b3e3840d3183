"""Spark SQL's tokens, as far as it takes to know what is code and what is quoted.

Two readers rely on it: the guard, which refuses whatever is not a plain expression, and the
condition parser of the fused lane. Where Spark's lexer and this one could differ, this one makes a
token that both refuse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class Kind(Enum):
    """What a token is."""

    STRING = auto()
    RAW_STRING = auto()
    QUOTED = auto()
    NUMBER = auto()
    WORD = auto()
    COMMENT = auto()
    SYMBOL = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token and where it starts."""

    kind: Kind
    text: str
    at: int

    @property
    def upper(self) -> str:
        """The word as Spark compares keywords: it upper-cases by Unicode, so `ſelect` is SELECT."""
        return self.text.upper()

    @property
    def is_name(self) -> bool:
        """Whether it can name a column or a function."""
        return self.kind in (Kind.WORD, Kind.QUOTED)

    @property
    def name(self) -> str:
        """The name without its backticks."""
        if self.kind is Kind.QUOTED:
            return self.text[1:-1].replace("``", "`")
        return self.text

    def is_symbol(self, *texts: str) -> bool:
        """Tell whether it is one of these signs."""
        return self.kind is Kind.SYMBOL and self.text in texts

    def is_word(self, *words: str) -> bool:
        """Tell whether it is one of these words (in capitals), not in backticks."""
        return self.kind is Kind.WORD and self.upper in words


_PATTERNS: Final[dict[Kind, str]] = {
    # In a raw string a backslash escapes nothing: read otherwise, r'\' would hide what follows it.
    Kind.RAW_STRING: r"""[rR]'[^']*'|[rR]"[^"]*\"""",
    Kind.STRING: r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""",
    Kind.QUOTED: r"`(?:[^`]|``)*`",
    Kind.COMMENT: r"--|/\*",
    Kind.NUMBER: r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])",
    Kind.WORD: r"\w+",
    Kind.SYMBOL: r"<=>|<=|>=|<>|!=|==|\|\||::|->|=>|\S",
}
_TOKEN: Final = re.compile(
    "|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in _PATTERNS.items()), re.DOTALL
)


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of an expression; a quote that never ends is a symbol of its own."""
    return [
        Token(Kind[match.lastgroup or ""], match[0], match.start())
        for match in _TOKEN.finditer(text)
    ]
