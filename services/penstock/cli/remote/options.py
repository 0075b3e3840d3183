"""The options of every command that asks a gateway."""

from __future__ import annotations

import argparse
import os
from typing import Any, Final

from penstock.cli.remote.asking import WITHIN, Server
from penstock.cli.remote.showing import OUTPUTS
from penstock.model.errors import PenstockError

SERVER: Final = "PENSTOCK_SERVER"
CREDENTIAL: Final = "PENSTOCK_CREDENTIAL"
"""NAME:PASSWORD, or a token. A variable and no option: command lines are seen by everybody."""
CA: Final = "PENSTOCK_CA"
COMPLETED_WITHIN: Final = 1.0
"""Seconds that a person waits who has pressed the tabulator."""

USUAL: Final = "http://127.0.0.1:8083"


def add(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    parser.add_argument(
        "--server",
        default=os.environ.get(SERVER, USUAL),
        help=f"URL of a gateway (default: {SERVER}, else {USUAL})",
    )
    parser.add_argument(
        "--ca",
        default=os.environ.get(CA, ""),
        help=f"PEM file that its certificate is checked by (default: {CA}); {CREDENTIAL} says who "
        "you are: NAME:PASSWORD, or a token",
    )
    parser.add_argument(
        "-o", "--output", choices=OUTPUTS, default="table", help="form of what is printed"
    )


def server(arguments: argparse.Namespace, within: float = WITHIN) -> Server:
    """Return the gateway that is meant; `within` are seconds for an answer."""
    return Server(arguments.server, os.environ.get(CREDENTIAL, ""), arguments.ca, within)


def connector(parser: argparse.ArgumentParser, word: str, means: str, **more: Any) -> None:
    """Add the name of a connector, which a shell completes by asking the gateway."""
    argument = parser.add_argument(word, help=means, **more)
    argument.completer = names  # type: ignore[attr-defined]  # where argcomplete looks


def names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the names that begin so; none when no gateway tells them at once."""
    try:
        with server(parsed_args, COMPLETED_WITHIN) as asked:
            return [name for name in asked.get("/connectors") if name.startswith(prefix)]
    except (PenstockError, AttributeError):
        return []
