"""`penstock NOUN VERB`: the verbs of a noun, each of which asks a gateway."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final, TypeAlias

from penstock.cli.remote import options
from penstock.cli.remote.asking import Server

Run: TypeAlias = Callable[[Server, argparse.Namespace], int]
"""What a verb does; returns the exit code."""


CONNECTOR: Final = "name of the connector"
"""What a word is that shells complete."""


class Noun:
    """The verbs of a noun, which are added one by one."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        """Add verbs to the parser of the noun."""
        self._verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")

    def verb(self, name: str, what: str, run: Run, /, **words: str) -> argparse.ArgumentParser:
        """Add a verb; `words` are what follows it, with what each is. Returns its parser, for
        options.
        """
        one: argparse.ArgumentParser = self._verbs.add_parser(name, help=what, description=what)
        for word, means in words.items():
            if means == CONNECTOR:
                options.connector(one, word, means)
            else:
                one.add_argument(word, help=means)
        options.add(one)
        one.set_defaults(verb=lambda arguments: _asked(run, arguments))
        return one


def _asked(run: Run, arguments: argparse.Namespace) -> int:
    with options.server(arguments) as server:
        return run(server, arguments)
