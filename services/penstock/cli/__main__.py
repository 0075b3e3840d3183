"""Picks the verb, prints errors the one way, sets the exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from penstock.cli.errors import FAILED, INTERRUPTED, MISUSED, print_error
from penstock.cli.plugins import add_parser as add_plugins
from penstock.cli.quickstart import add_parser as add_quickstart
from penstock.cli.run import add_parser as add_run
from penstock.cli.standalone import add_parser as add_standalone
from penstock.model.errors import ConfigError, PenstockError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock", description="Moves record streams between systems, exactly once."
    )
    parser.add_argument("--version", action="version", version=f"penstock {version('penstock')}")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    for add in (add_quickstart, add_run, add_standalone, add_plugins):
        add(verbs)
    return parser


if __name__ == "__main__":
    sys.exit(main())
