"""Picks the verb, prints errors the one way, sets the exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from penstock.cli import completion
from penstock.cli.errors import FAILED, INTERRUPTED, MISUSED, UNREAD, print_error, told_of
from penstock.cli.verbs import add_verbs
from penstock.model.errors import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if asked := completion.line(os.environ):
        completion.complete(_parser(asked))
    arguments = _parser(words).parse_args(words)
    try:
        code: int = arguments.verb(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _unread()
    except Exception as error:  # noqa: BLE001 - whatever it is, a person reads it
        told = told_of(error)
        print_error(told)
        return MISUSED if isinstance(told, ConfigError) else FAILED
    return code


def _unread() -> int:
    """End as a program does whose output nobody reads any more: `penstock … | head`."""
    # what is left in the buffer would raise once more at the end
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return UNREAD


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock", description="Moves record streams between systems, exactly once."
    )
    parser.add_argument("--version", action="version", version=f"penstock {version('penstock')}")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    add_verbs(verbs, words)
    return parser


if __name__ == "__main__":
    sys.exit(main())
