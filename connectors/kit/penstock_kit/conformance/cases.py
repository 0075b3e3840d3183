"""The cases of the specification, from `connectors/spec/cases.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from penstock.model.errors import ConfigError, nearest_names

CASES_FILE: Final = "cases.toml"
_HERE: Final = Path(__file__).resolve().parent
_PATHS: Final = (_HERE / CASES_FILE, _HERE.parents[2] / "spec" / CASES_FILE)
"""In an installed package, else in a checkout."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a rule of the protocol that a plugin keeps.

    Attributes:
        id: Its stable name.
        shows: The rule, in a sentence.
        level: MUST or SHOULD.
        kind: `plugin` (the process), `connector` (either), `source` or `sink`.
        rules: Rules of the protocol and of the acceptance suite that it comes from.
        needs: An ability that the connector must have, or commit modes with `|` between.
        seconds: The time limit that it checks.
        beside: Whether it mostly waits, and so runs concurrently with the others.
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
        """Return the cases of `plugin`, `source` or `sink`; those of `connector` are in both."""
        return [case for case in self.cases if case.kind == kind or self._is_shared(case, kind)]

    def select(self, ids: Iterable[str]) -> Spec:
        """Return the cases with these ids or id prefixes; all for no ids.

        Raises:
            ConfigError: `conformance.no_case`.
        """
        known = {case.id: case for case in self.cases}
        selected: dict[str, Case] = {}
        for id_ in ids:
            matching = {k: case for k, case in known.items() if k == id_ or k.startswith(f"{id_}.")}
            if not matching:
                like = nearest_names(id_, known)
                raise ConfigError(
                    "conformance.no_case",
                    f"there is no case {id_!r}",
                    suggestion=like[0] if like else "",
                    fix=f"Did you mean {' or '.join(like)}?" if like else "See the specification.",
                )
            selected |= matching
        return Spec(self.version, tuple(selected.values())) if selected else self

    @staticmethod
    def _is_shared(case: Case, kind: str) -> bool:
        return case.kind == "connector" and kind in {"source", "sink"}


@cache
def load_spec() -> Spec:
    """Return the cases of this version of the kit."""
    path = next(path for path in _PATHS if path.is_file())
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return Spec(table["version"], tuple(_case(entry) for entry in table["case"]))


def _case(entry: Mapping[str, Any]) -> Case:
    return Case(**{**entry, "rules": tuple(entry["rules"])})
