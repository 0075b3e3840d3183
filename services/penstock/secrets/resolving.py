"""Values for the references of a configuration, asked of their providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.model.config_def import did_you_mean
from penstock.model.errors import (
    Diagnostic,
    ErrorClass,
    PenstockError,
    Severity,
    error_of,
    nearest,
)
from penstock.secrets.provider import Provider, not_found
from penstock.secrets.references import Reference, filled, referred

_Place = tuple[str, str]
"""A provider, and a path there."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration with values in the place of references.

    Attributes:
        config: All of it. Not for logs, not for stores (invariant 9).
        answers: What providers answered, by the key that it stands at: a value may have it as a
            part of a longer text.
        ttl: Seconds until one of them is to be asked for again; None for never.
    """

    config: Mapping[str, str]
    answers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ttl: float | None = None

    @property
    def secret(self) -> frozenset[str]:
        """The keys whose values came from providers."""
        return frozenset(self.answers)

    def __repr__(self) -> str:
        return f"Resolved({len(self.config)} keys, {sorted(self.secret)} by reference)"


class Secrets:
    """The providers of a worker. Owns them: `close`."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = dict(providers)

    def looked_up(self, config: Mapping[str, str]) -> Iterator[tuple[str, Reference]]:
        """Iterate over the references that providers are asked for, each with the key that it
        stands at.
        """
        return ((n, one) for n, one in referred(config) if one.provider in self._providers)

    async def resolve(self, config: Mapping[str, str]) -> Resolved:
        """Return the configuration with the values of its references. A reference to a provider
        that is not there is text, as for Kafka Connect.

        Raises:
            PenstockError: `secrets.*`, with the key that the reference stands at.
        """
        wanted: dict[_Place, dict[str, str]] = {}
        for name, reference in self.looked_up(config):
            keys = wanted.setdefault((reference.provider, reference.path), {})
            keys.setdefault(reference.key, name)
        if not wanted:
            return Resolved(config)
        found: dict[Reference, str] = {}
        ttls: list[float] = []
        for (provider, path), keys in wanted.items():
            values, ttl = await self._read(provider, path, keys)
            found |= {Reference(provider, path, key): value for key, value in values.items()}
            ttls += [] if ttl is None else [ttl]
        result = {name: filled(value, found.get) for name, value in config.items()}
        answers: dict[str, frozenset[str]] = {}
        for name, reference in referred(config):
            if reference in found:
                answers[name] = answers.get(name, frozenset()) | {found[reference]}
        return Resolved(result, answers, min(ttls, default=None))

    def warnings(self, config: Mapping[str, str]) -> list[Diagnostic]:
        """Return a warning for each reference that names no provider."""
        return [
            self._unknown(name, reference)
            for name, reference in referred(config)
            if reference.provider not in self._providers
        ]

    async def close(self) -> None:
        """Let go of all providers. Idempotent."""
        for provider in self._providers.values():
            await provider.close()

    async def _read(
        self, name: str, path: str, keys: Mapping[str, str]
    ) -> tuple[Mapping[str, str], float | None]:
        try:
            answer = await self._providers[name].read(path, list(keys))
        except PenstockError as error:
            raise _at(error, next(iter(keys.values()))) from None
        for key, at in keys.items():
            if key not in answer.values:
                reference = str(Reference(name, path, key))[:500]
                fix = "Put it there, or correct the reference."
                raise _at(not_found(f"there is no value for {reference}", fix), at)
        return answer.values, answer.ttl

    def _unknown(self, name: str, reference: Reference) -> Diagnostic:
        near = nearest(reference.provider, self._providers)
        known = did_you_mean(reference.provider, self._providers) if self._providers else ""
        return Diagnostic(
            "secrets.unknown_provider",
            f"`{name}` refers to {reference.provider[:100]!r}, and the worker has no such provider "
            "of secrets: the text is taken as it is",
            ErrorClass.CONFIG,
            Severity.WARNING,
            fix=known or "Name it in `config.providers` of the worker.",
            config_path=name,
            suggestion=near[0] if near else "",
        )


def _at(error: PenstockError, name: str) -> PenstockError:
    return error_of(replace(error.diagnostic, config_path=name))


NO_SECRETS: Final = Secrets({})
"""For who has no providers: references are text."""
