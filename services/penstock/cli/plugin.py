"""`penstock plugin …`: what authors of plugins do with one. Each word has its file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib import import_module
from typing import Final

WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "new": ("scaffold", "make a project of a connector: it builds, has tests and a manifest"),
    "test": ("plugin_test", "test whether a plugin keeps the protocol"),
    "run": ("plugin_run", "serve a plugin at an address, with reflection, for grpcurl"),
    "list": ("plugins", "list the installed connectors"),
    "seal": ("plugin_seal", "write checksums of its files, which are compared at each start"),
}
"""The file of each word, and what it is for."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the words of the verb."""
    words = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    for name, (module, what) in WORDS.items():
        word: argparse.ArgumentParser = words.add_parser(name, help=what, description=what)
        import_module(f"penstock.cli.{module}").describe(word, name)
