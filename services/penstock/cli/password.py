"""`penstock password`: the hash of a password, for the file of a gateway's users."""

from __future__ import annotations

import argparse
import getpass
import sys

from penstock.gateway.access import passwords
from penstock.model.errors import ConfigError

SHORTEST = 12
"""Characters. Shorter ones are found by trying, when the file is lost."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb: none, since command lines are seen by everybody."""
    parser.set_defaults(verb=run)


def run(_: argparse.Namespace) -> int:
    """Run the verb: ask for the password, or read a line of the input."""
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if len(password) < SHORTEST:
        raise ConfigError(
            "access.password",
            f"the password has less than {SHORTEST} characters",
            fix="Take a longer one: some words will do.",
        )
    print(passwords.hashed(password))
    return 0
