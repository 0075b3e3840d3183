"""Picks the verb, prints errors the one way, sets the exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from penstock.cli import completion
from penstock.cli.errors import FAILED, INTERRUPTED, MISUSED, print_error
from penstock.cli.verbs import add_verbs
from penstock.model.errors import ConfigError, PenstockError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if asked := completion.line(os.environ):
        completion.complete(_parser(asked))
    arguments = _parser(words).parse_args(words)
    try:
        code: int = arguments.verb(arguments)
    except ConfigError as error:
        print_error(error)
        return MISUSED
    except PenstockError as error:
        print_error(error)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


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
