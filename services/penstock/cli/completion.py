"""`penstock completion bash|zsh|fish`: what a shell needs to complete verbs and options.

    source <(penstock completion bash)     # in ~/.bashrc; zsh alike
    penstock completion fish | source      # in config.fish

The shell then asks the command itself, by argcomplete's protocol: a variable says so, and another
one has the line so far.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping

SHELLS = ("bash", "zsh", "fish")


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - no other verb needs it

    print(shellcode(["penstock"], shell=arguments.shell))
    return 0


def line(environment: Mapping[str, str]) -> list[str]:
    """Return the words of the line that a shell wants completed; none when no shell asks."""
    if "_ARGCOMPLETE" not in environment:
        return []
    text = environment.get("COMP_LINE", "")
    try:
        return shlex.split(text) or [""]
    except ValueError:  # a quote that is not closed yet
        return text.split() or [""]


def complete(parser: argparse.ArgumentParser) -> None:
    """Tell the shell what may come, and end the process."""
    import argcomplete  # noqa: PLC0415 - as above

    argcomplete.autocomplete(parser)
