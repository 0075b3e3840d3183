"""The cases, as `connectors/spec/cases.toml` has them: one truth for all languages."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from penstock.model.errors import ConfigError, nearest

FILE_NAME: Final = "cases.toml"
_HERE: Final = Path(__file__).resolve().parent
_PLACES: Final = (_HERE / FILE_NAME, _HERE.parents[2] / "connectors" / "spec" / FILE_NAME)
"""In an installed package, and in a checkout."""


@dataclass(frozen=True, slots=True)
class Case:
    """One promise of a plugin, and where it comes from.

    Attributes:
        id: Its name, for ever.
        shows: What holds, in a sentence.
        level: MUST or SHOULD.
        kind: `plugin` (the process), `connector` (either), `source` or `sink`.
        rules: Which rules of the protocol and which lines of the acceptance suite it is from.
        needs: An ability without which it is not asked, or commit modes with `|` between.
        seconds: The time limit that it looks at.
        beside: It mostly waits, so it runs beside the others.
    """

    id: str
    shows: str
    level: str
    kind: str
    rules: tuple[str, ...]
    needs: str = ""
    seconds: float = 30.0
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Spec:
    """All cases of one version."""

    version: str
    cases: tuple[Case, ...]

    def of_kind(self, kind: str) -> list[Case]:
        """Return the cases for `plugin`, `source` or `sink`; those of `connector` are for both."""
        return [case for case in self.cases if case.kind == kind or self._both(case, kind)]

    def chosen(self, ids: Iterable[str]) -> Spec:
        """Return the cases with these ids, or ids that begin like them; all when there are none.

        Raises:
            ConfigError: `conformance.no_case`.
        """
        known = {case.id: case for case in self.cases}
        found: dict[str, Case] = {}
        for id_ in ids:
            matching = {k: case for k, case in known.items() if k == id_ or k.startswith(f"{id_}.")}
            if not matching:
                like = nearest(id_, known)
                raise ConfigError(
                    "conformance.no_case",
                    f"there is no case {id_!r}",
                    suggestion=like[0] if like else "",
                    fix=f"Did you mean {' or '.join(like)}?" if like else "See the specification.",
                )
            found |= matching
        return Spec(self.version, tuple(found.values())) if found else self

    @staticmethod
    def _both(case: Case, kind: str) -> bool:
        return case.kind == "connector" and kind in {"source", "sink"}


@cache
def load() -> Spec:
    """Read the cases that this version of the kit runs."""
    place = next(place for place in _PLACES if place.is_file())
    table = tomllib.loads(place.read_text(encoding="utf-8"))
    return Spec(table["version"], tuple(_case(entry) for entry in table["case"]))


def _case(entry: Mapping[str, Any]) -> Case:
    return Case(**{**entry, "rules": tuple(entry["rules"])})
