"""Whether the rules of what connectors may reach can be read, and the folders that they name are
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from penstock.cli.looks.found import Found, refused
from penstock.model.errors import ConfigError
from penstock.worker.config.reach import REACH, RESERVED, Reach, reach_rules


def reach(names: Sequence[str], said: Mapping[str, str]) -> Iterator[Found]:
    """Return how the rules are that `reach` names; `said` is all that a file says."""
    keys = {key: value for key, value in said.items() if key.startswith(RESERVED)}
    try:
        rules = reach_rules(names, keys).rules
    except ConfigError as error:
        yield refused(REACH, error, REACH)
        return
    if rules is None:
        return
    yield Found(REACH, ok=True, found=", ".join(names))
    for _, rule in rules:
        yield from _folders(rule)


def _folders(rule: Reach) -> Iterator[Found]:
    for folder in rule.folders or ():
        if "://" in folder or Path(folder).exists():  # a rule may name a file, too
            continue
        yield Found(
            f"{REACH} {folder}",
            ok=False,
            found="is not there",
            fix=f"Make it, or have the rule {rule.rule!r} name the folder that is meant.",
            needed=False,
            code="doctor.no_folder",
            place=f"{RESERVED}{rule.rule}.folders",
        )
