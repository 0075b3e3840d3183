"""References in a configuration. Pure.

The form is that of Kafka's ConfigTransformer: `${provider:path:key}` or `${provider:key}`, any
number of them in a value. What a provider answers is taken as it is: references in it are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

LONGEST: Final = 1000
"""Characters of a path or a key (invariant 12). Without a bound, a value of many `${` and no end
takes time by the square of its length."""

_FORM: Final = re.compile(
    rf"\$\{{([^}}:${{]{{1,100}}):(?:([^}}:]{{0,{LONGEST}}}):)?([^}}]{{0,{LONGEST}}})\}}"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """One of them. `path` is empty where none was written."""

    provider: str
    path: str
    key: str

    def __str__(self) -> str:
        path = f"{self.path}:" if self.path else ""
        return f"${{{self.provider}:{path}{self.key}}}"


def referred(config: Mapping[str, str]) -> Iterator[tuple[str, Reference]]:
    """Iterate over the references of a configuration, each with the key that it stands at."""
    for name, value in config.items():
        for match in _FORM.finditer(value):
            yield name, _reference(match)


def filled(value: str, lookup: Callable[[Reference], str | None]) -> str:
    """Return a value with what `lookup` says in place of its references; None leaves one as it
    is.
    """

    def of(match: re.Match[str]) -> str:
        found = lookup(_reference(match))
        return match.group() if found is None else found

    return _FORM.sub(of, value)


def _reference(match: re.Match[str]) -> Reference:
    provider, path, key = match.groups()
    return Reference(provider, path or "", key)
