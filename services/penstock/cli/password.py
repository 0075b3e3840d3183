"""`penstock password`: hash a password, for the users file of a gateway."""

from __future__ import annotations

import argparse
import getpass
import sys

from penstock.gateway.access import passwords
from penstock.model.errors import ConfigError

MIN_CHARACTERS = 12
"""Shorter passwords are found by brute force once the file leaks."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Set the verb. It has no options: other users of a machine see command lines."""
    parser.set_defaults(verb=run)


def run(_: argparse.Namespace) -> int:
    """Read the password from the terminal, or as a line of the input; print its hash."""
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if len(password) < MIN_CHARACTERS:
        raise ConfigError(
            "access.password",
            f"the password has fewer than {MIN_CHARACTERS} characters",
            fix="Choose a longer one, for instance several words.",
        )
    print(passwords.hash_password(password))
    return 0
