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
    "test": ("test", "run the tests that pipeline files have: rows in, rows out"),
    "standalone": ("standalone", "run connectors on this machine until interrupted"),
    "cluster": ("cluster", "a whole cluster on this machine"),
    "config": (
        "service",
        f"{_SERVICE}what should run: connectors, revisions, target states, plans",
    ),
    "offset": ("service", f"{_SERVICE}how far every partition was read"),
    "scheduler": ("service", f"{_SERVICE}who runs which task; one of several leads"),
    "worker": ("service", f"{_SERVICE}runs tasks: plugins, Spark, topics"),
    "gateway": ("service", f"{_SERVICE}Kafka Connect's REST API, over the others"),
    "connector": ("connector", "connectors of a cluster: make, look at, change, steer"),
    "offsets": ("offsets", "how far a connector is, and where it goes on"),
    "workers": ("workers", "the workers of a cluster: who is there, empty one"),
    "loggers": ("loggers", "how much workers log"),
    "plan": ("apply", "tell what a folder of connectors would change in a cluster"),
    "apply": ("apply", "make the connectors of a cluster what a folder says"),
    "dlq": ("dlq", "dead letters of a connector: look at them, correct them, replay them"),
    "inspect": ("inspect", "show some of the rows that a connector moves, as they do"),
    "logs": ("logs", "what workers log, about one connector or all, as it comes"),
    "top": ("top", "rates, lag and errors of all connectors, as they change"),
    "password": ("password", "the hash of a password, for the users of a gateway"),
    "completion": ("completion", "what a shell needs to complete verbs and options"),
    "doctor": ("doctor", "what this machine lacks to run Penstock"),
    "plugins": ("plugins", "list the installed connectors"),
    "plugin": ("plugin", "for authors of plugins: make one, run it, seal it"),
    "dev": ("dev", "run a pipeline, anew whenever the files of a plugin change"),
}
"""The file of each verb, and what it is for."""


def add_verbs(verbs: Any, words: Iterable[str]) -> None:
    """Add all verbs to a parser; those among the words of a command line with their options."""
    asked = VERBS.keys() & set(words)
    for name, (module, what) in VERBS.items():
        parser: argparse.ArgumentParser = verbs.add_parser(name, help=what, description=what)
        if name in asked:
            import_module(f"penstock.cli.{module}").describe(parser, name)
