"""The page of commands: every verb with its arguments, from the parser of the command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.cli.__main__ import VERBS, command_parser
from penstock.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from reference.markdown import code, page, plain, table

_ENVIRONMENT: Final = {"XDG_STATE_HOME": "~/.local/state"}
"""What defaults are made of, as on a machine where nothing is set."""

_OURS: Final = "PENSTOCK_"

_SERVICES: Final = frozenset({"config", "offset", "scheduler", "worker", "gateway"})


def write_page() -> str:
    """Return the page."""
    with _clean_environment():
        parser = command_parser(list(VERBS))
        verbs = dict(_subcommands(parser))
        sections = [part for name, verb in verbs.items() for part in _section(name, verb, 2)]
    return page(
        "Commands",
        "`penstock VERB --help` prints the same arguments. The exit code is 0 for success, "
        f"{EXIT_FAILED} for a failure, {EXIT_USAGE} for a wrong command line or configuration, "
        f"{EXIT_INTERRUPTED} for a run that Ctrl-C ends. Services, `standalone`, `distributed` and "
        "`dev` end with 0 when they are stopped.",
        table(
            ("verb", "what it does"),
            ((f"[`{name}`](#penstock-{name})", plain(VERBS[name][1])) for name in verbs),
        ),
        *sections,
    )


@contextmanager
def _clean_environment() -> Iterator[None]:
    """Read no variable of the machine on which the page is written."""
    kept = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(_OURS)]:
        del os.environ[name]
    os.environ.update(_ENVIRONMENT)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _section(name: str, parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield f"{'#' * level} penstock {name}"
    if parser.description:
        yield plain(_sentence(parser.description))
    arguments = [one for one in parser._actions if _is_listed(one)]
    if arguments:
        yield table(
            ("argument", "default", "meaning"), (_row(parser, argument) for argument in arguments)
        )
    if name in _SERVICES:
        yield f"Its keys are on [the page of services](services.md#{name})."
    elif parser.epilog:
        yield plain(parser.epilog)
    for verb, verb_parser in _subcommands(parser):
        yield from _section(f"{name} {verb}", verb_parser, level + 1)


def _is_listed(action: argparse.Action) -> bool:
    return not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str, str]:
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    choices = [str(one) for one in action.choices or ()]
    if choices:
        text = f"{text}{'; ' if text else ''}one of {', '.join(choices)}"
    return code(_usage(action)), _default(action, text), plain(text)


def _usage(action: argparse.Action) -> str:
    """Return an argument as it is written: `FILE…`, `--state STATE`."""
    name = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    word = name if isinstance(name, str) else " ".join(name)
    if not action.option_strings:
        return {"*": f"[{word}…]", "+": f"{word}…", "?": f"[{word}]"}.get(str(action.nargs), word)
    options = ", ".join(action.option_strings)
    return options if action.nargs == 0 else f"{options} {word}"


def _default(action: argparse.Action, text: str) -> str:
    if action.option_strings and action.required:
        return "required"
    silent = action.default in (None, False, "", argparse.SUPPRESS) or action.default == []
    # a default that the help already names would be there twice
    return "" if silent or str(action.default) in text else code(str(action.default))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
