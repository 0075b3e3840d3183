"""`penstock completion bash|zsh|fish`: the script by which a shell completes verbs and options.

    source <(penstock completion bash)     # in ~/.bashrc; zsh alike
    penstock completion fish | source      # in config.fish

The shell then runs `penstock` itself, by argcomplete's protocol: one variable marks such a run,
another one has the line so far.
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
    """Print the script of a shell."""
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - no other verb needs it

    print(shellcode(["penstock"], shell=arguments.shell))
    return 0


def completion_words(environment: Mapping[str, str]) -> list[str]:
    """Return the words of the line to complete; none when this is not a completion run."""
    if "_ARGCOMPLETE" not in environment:
        return []
    text = environment.get("COMP_LINE", "")
    try:
        return shlex.split(text) or [""]
    except ValueError:  # an open quote
        return text.split() or [""]


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the completions of the line for the shell, and end the process."""
    import argcomplete  # noqa: PLC0415 - as above

    argcomplete.autocomplete(parser)
