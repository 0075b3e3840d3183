"""The options of every command that asks a gateway."""

from __future__ import annotations

import argparse
import os
from typing import Final

from penstock.cli.remote.asking import Server
from penstock.cli.remote.showing import OUTPUTS

SERVER: Final = "PENSTOCK_SERVER"
CREDENTIAL: Final = "PENSTOCK_CREDENTIAL"
"""NAME:PASSWORD, or a token. A variable and no option: command lines are seen by everybody."""
CA: Final = "PENSTOCK_CA"
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


def server(arguments: argparse.Namespace) -> Server:
    """Return the gateway that is meant."""
    return Server(arguments.server, os.environ.get(CREDENTIAL, ""), arguments.ca)
