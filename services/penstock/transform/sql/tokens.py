"""The tokens of Spark SQL, as far as needed to separate code from quoted text.

Two modules use them: `guard`, which refuses everything but a plain expression, and
`condition_parser`, which compiles conditions for fused plans. Where Spark's lexer could differ from
this one, it makes a token that both modules refuse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class TokenKind(Enum):
    """The kind of a token."""

    STRING = auto()
    RAW_STRING = auto()
    QUOTED = auto()
    NUMBER = auto()
    WORD = auto()
    COMMENT = auto()
    SYMBOL = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its index in the text."""

    kind: TokenKind
    text: str
    at: int

    @property
    def upper(self) -> str:
        """The word as Spark compares keywords: in upper case by Unicode, so `ſelect` is SELECT."""
        return self.text.upper()

    @property
    def is_name(self) -> bool:
        """Whether it can name a column or a function."""
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED)

    @property
    def name(self) -> str:
        """The name without its backticks."""
        if self.kind is TokenKind.QUOTED:
            return self.text[1:-1].replace("``", "`")
        return self.text

    def is_symbol(self, *texts: str) -> bool:
        """Whether it is one of these symbols."""
        return self.kind is TokenKind.SYMBOL and self.text in texts

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words (in upper case), without backticks."""
        return self.kind is TokenKind.WORD and self.upper in words


_PATTERNS: Final[dict[TokenKind, str]] = {
    # In a raw string a backslash escapes nothing; otherwise r'\' would hide the text behind it.
    TokenKind.RAW_STRING: r"""[rR]'[^']*'|[rR]"[^"]*\"""",
    TokenKind.STRING: r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""",
    TokenKind.QUOTED: r"`(?:[^`]|``)*`",
    TokenKind.COMMENT: r"--|/\*",
    TokenKind.NUMBER: r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])",
    TokenKind.WORD: r"\w+",
    TokenKind.SYMBOL: r"<=>|<=|>=|<>|!=|==|\|\||::|->|=>|\S",
}
_TOKEN: Final = re.compile(
    "|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in _PATTERNS.items()), re.DOTALL
)


def tokenize(text: str) -> list[Token]:
    """Split an expression into tokens. The quote of a text that never ends is a symbol."""
    return [
        Token(TokenKind[match.lastgroup or ""], match[0], match.start())
        for match in _TOKEN.finditer(text)
    ]
