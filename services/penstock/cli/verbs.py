"""What `penstock` can do: one file per verb, imported only when it is the one that is asked for.

A control service has no use for Spark, Arrow or tables, and would hold them in memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

_SERVICE: Final = "a service of a cluster: "

VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "quickstart": (
        "quickstart",
        "move a real data file through a topic into two tables, and show it",
    ),
    "run": ("run", "run a pipeline file until it ends, or is interrupted"),
    "standalone": ("standalone", "run connectors on this machine until interrupted"),
    "cluster": ("cluster", "a whole cluster on this machine"),
    "config": (
        "service",
        f"{_SERVICE}what should run: connectors, revisions, target states, plans",
    ),
    "offset": ("service", f"{_SERVICE}how far every partition was read"),
    "scheduler": ("service", f"{_SERVICE}who runs which task; one of several leads"),
    "worker": ("service", f"{_SERVICE}runs tasks: plugins, Spark, topics"),
    "plugins": ("plugins", "list the installed connectors"),
    "plugin": ("plugin", "for authors of plugins: make one, run it, seal it"),
    "dev": ("dev", "run a pipeline, anew whenever the files of a plugin change"),
}
"""The file of each verb, and what it is for."""


def add_verbs(verbs: Any, words: Iterable[str]) -> None:
    """Add all verbs to a parser; those among the words of a command line with their options."""
    asked = VERBS.keys() & set(words)
    for name, (module, what) in VERBS.items():
        parser: argparse.ArgumentParser = verbs.add_parser(name, help=what)
        if name in asked:
            import_module(f"penstock.cli.{module}").describe(parser, name)
