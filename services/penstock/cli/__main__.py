"""Pick the verb of a command line, print its error, return the exit code.

A verb's file is imported only when the command line names the verb: a control service does not need
Spark, Arrow or tables, and would hold them in memory.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from penstock.cli import completion
from penstock.cli.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    as_penstock_error,
    print_error,
)
from penstock.model.errors import ConfigError, nearest_names

_SERVICE: Final = "a service of a cluster: "

VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "quickstart": (
        "quickstart",
        "move a real data file through a topic into two tables, and show it",
    ),
    "run": ("run", "run a pipeline file until it ends, or is interrupted"),
    "init": ("init", "write a pipeline file to fill in"),
    "check": ("check", "find what is wrong with pipeline files, without running them"),
    "test": ("test", "run the tests in pipeline files: rows in, rows out"),
    "standalone": ("standalone", "run connectors on this machine until interrupted"),
    "distributed": (
        "distributed",
        "run all services of a cluster's machine, by Kafka Connect's worker file",
    ),
    "mirror-maker": (
        "mirror_maker",
        "mirror topics between clusters of Kafka, by MirrorMaker's file",
    ),
    "cluster": ("cluster", "a whole cluster on this machine"),
    "backup": ("backup", "write the state of a cluster or a node to a file, while it runs"),
    "restore": ("backup", "put a backup where nothing of the cluster or the node is"),
    "config": (
        "service",
        f"{_SERVICE}what should run: connectors, revisions, target states, plans",
    ),
    "offset": ("service", f"{_SERVICE}how far every partition was read"),
    "scheduler": ("service", f"{_SERVICE}assigns tasks to workers; one of several leads"),
    "worker": ("service", f"{_SERVICE}runs tasks: plugins, Spark, topics"),
    "gateway": ("service", f"{_SERVICE}Kafka Connect's REST API, over the others"),
    "connector": ("connector", "connectors of a cluster: create, inspect, change, pause"),
    "offsets": ("offsets", "how far a connector has read, and where it resumes"),
    "workers": ("workers", "workers of a cluster: list them, drain one"),
    "loggers": ("loggers", "log levels of the workers"),
    "plan": ("apply", "show what a folder of connectors would change in a cluster"),
    "apply": ("apply", "make the connectors of a cluster match a folder"),
    "import": ("migration", "take connectors over from Kafka Connect: a plan, then --apply"),
    "export": ("migration", "give offsets back to Kafka Connect: a plan, then --apply"),
    "dlq": ("dlq", "dead letters of a connector: list them, correct them, replay them"),
    "inspect": ("inspect", "show some of the rows that a connector moves, live"),
    "logs": (
        "logs",
        "log lines of the workers, live; warnings also of those that are gone",
    ),
    "events": ("events", "what happened to connectors, tasks and workers, live"),
    "top": ("top", "rates, lag and errors of all connectors, live"),
    "password": ("password", "hash a password, for the users file of a gateway"),
    "completion": ("completion", "print the script that lets a shell complete verbs and options"),
    "doctor": ("doctor", "what this machine lacks to run Penstock"),
    "plugins": ("plugin", "list the installed connectors, or the keys of one"),
    "plugin": ("plugin", "for authors of plugins: create one, test it, run it, seal it"),
    "dev": ("dev", "run a pipeline, again whenever its file or a plugin changes"),
}
"""Each verb with its module and its help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words_to_complete := completion.completion_words(os.environ):
        completion.complete(command_parser(words_to_complete))
    arguments = command_parser(words).parse_args(words)
    try:
        code: int = arguments.verb(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _discard_output()
    except Exception as raised:  # noqa: BLE001 - the user reads an error, never a traceback
        error = as_penstock_error(raised)
        print_error(error)
        return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILED
    return code


def _discard_output() -> int:
    """End quietly after the reader of the output is gone: `penstock … | head`."""
    # what is left in the buffer would raise once more at exit
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_BROKEN_PIPE


class _Version(argparse.Action):
    """Prints the version. Finding it takes as long as all else that `--help` does."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **more)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Print it, and end."""
        from importlib.metadata import version  # noqa: PLC0415 - see above

        print(f"penstock {version('penstock')}")
        parser.exit()


_NO_CHOICE: Final = re.compile(r"argument (\w+): invalid choice: '([^']*)' \(choose from (.*)\)")


class _Parser(argparse.ArgumentParser):
    """Answers a misspelt verb with the nearest ones, not with all."""

    def error(self, message: str) -> NoReturn:
        """End with the usage and a message."""
        if match := _NO_CHOICE.fullmatch(message):
            what, word, choices = match.groups()
            near = nearest_names(word, re.findall(r"'([^']*)'", choices))
            if near:
                message = f"there is no {what.lower()} '{word}'. Did you mean {' or '.join(near)}?"
        super().error(message)


def command_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of a command line, with all verbs. Only those among the words have their
    options.
    """
    parser = _Parser(
        prog="penstock", description="Moves record streams between systems, exactly once."
    )
    parser.add_argument("--version", action=_Version, help="show the version")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    _add_verbs(verbs, words)
    return parser


def _add_verbs(verbs: Any, words: Iterable[str]) -> None:
    """Add all verbs; only those that the command line names get their options."""
    named = VERBS.keys() & set(words)
    for name, (module, summary) in VERBS.items():
        parser: argparse.ArgumentParser = verbs.add_parser(name, help=summary, description=summary)
        if name in named:
            import_module(f"penstock.cli.{module}").describe(parser, name)


if __name__ == "__main__":
    sys.exit(main())
