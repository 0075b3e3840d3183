"""Secret references in a configuration, and their resolution by providers.

A reference has the form of Kafka's ConfigTransformer: `${provider:path:key}` or `${provider:key}`,
any number of them in a value. References in a value that a provider returns are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.model.config_def import did_you_mean
from penstock.model.errors import (
    Diagnostic,
    ErrorClass,
    PenstockError,
    Severity,
    error_from_diagnostic,
    nearest_names,
)
from penstock.secrets.provider import Provider, ProviderResponse, not_found

MAX_PART_CHARACTERS: Final = 1000
"""Characters of a path or a key (invariant 12). Without a bound, the time for a value with many
`${` and no `}` grows with the square of its length."""

_FORM: Final = re.compile(
    rf"\$\{{([^}}:${{]{{1,100}}):(?:([^}}:]{{0,{MAX_PART_CHARACTERS}}}):)?([^}}]{{0,{MAX_PART_CHARACTERS}}})\}}"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A secret reference. `path` is empty when the reference has none."""

    provider: str
    path: str
    key: str

    def __str__(self) -> str:
        path = f"{self.path}:" if self.path else ""
        return f"${{{self.provider}:{path}{self.key}}}"


def find_references(config: Mapping[str, str]) -> Iterator[tuple[str, Reference]]:
    """Iterate over the references of a configuration, each with the key of its value."""
    for name, value in config.items():
        for match in _FORM.finditer(value):
            yield name, _reference(match)


def fill_references(value: str, lookup: Callable[[Reference], str | None]) -> str:
    """Return a value with its references replaced by `lookup`; None leaves a reference as it is."""

    def replace_match(match: re.Match[str]) -> str:
        found = lookup(_reference(match))
        return match.group() if found is None else found

    return _FORM.sub(replace_match, value)


def _reference(match: re.Match[str]) -> Reference:
    provider, path, key = match.groups()
    return Reference(provider, path or "", key)


_Source = tuple[str, str]
"""A provider and a path."""


@dataclass(frozen=True, slots=True)
class ResolvedReferences:
    """A configuration whose references were replaced by values.

    Attributes:
        config: All keys and values. Never log or store it (invariant 9).
        secret_values: The values that providers returned, by key of the configuration. A value of
            the configuration may contain them as parts of a longer text.
        ttl_s: Seconds until the references are resolved again; None: never.
    """

    config: Mapping[str, str]
    secret_values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ttl_s: float | None = None

    @property
    def reference_keys(self) -> frozenset[str]:
        """The keys whose values have resolved references."""
        return frozenset(self.secret_values)

    def __repr__(self) -> str:
        keys = ", ".join(sorted(self.reference_keys))
        return f"ResolvedReferences({len(self.config)} keys, resolved: {keys or 'none'})"


class Secrets:
    """The secret providers of a worker. Owns them: `close` closes them."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = dict(providers)

    def known_references(self, config: Mapping[str, str]) -> Iterator[tuple[str, Reference]]:
        """Iterate over the references to existing providers, each with the key of its value."""
        return (
            (name, reference)
            for name, reference in find_references(config)
            if reference.provider in self._providers
        )

    async def resolve(self, config: Mapping[str, str]) -> ResolvedReferences:
        """Return the configuration with its references replaced by values.

        A reference to an unknown provider is text, as in Kafka Connect.

        Raises:
            PenstockError: `secrets.*`, with the key of the value that has the reference.
        """
        requests: dict[_Source, dict[str, str]] = {}
        for name, reference in self.known_references(config):
            keys = requests.setdefault((reference.provider, reference.path), {})
            keys.setdefault(reference.key, name)
        if not requests:
            return ResolvedReferences(config)
        found: dict[Reference, str] = {}
        ttls: list[float] = []
        for (provider, path), keys in requests.items():
            response = await self._read(provider, path, keys)
            for key, value in response.values.items():
                found[Reference(provider, path, key)] = value
            ttls += [] if response.ttl_s is None else [response.ttl_s]
        resolved = {name: fill_references(value, found.get) for name, value in config.items()}
        secret_values: dict[str, frozenset[str]] = {}
        for name, reference in find_references(config):
            if reference in found:
                earlier = secret_values.get(name, frozenset())
                secret_values[name] = earlier | {found[reference]}
        return ResolvedReferences(resolved, secret_values, min(ttls, default=None))

    def check_references(self, config: Mapping[str, str]) -> list[Diagnostic]:
        """Return a warning for each reference to an unknown provider."""
        return [
            self._unknown_provider(name, reference)
            for name, reference in find_references(config)
            if reference.provider not in self._providers
        ]

    async def close(self) -> None:
        """Close all providers. Idempotent."""
        for provider in self._providers.values():
            await provider.close()

    async def _read(self, name: str, path: str, keys: Mapping[str, str]) -> ProviderResponse:
        try:
            response = await self._providers[name].read(path, list(keys))
        except PenstockError as error:
            raise _with_config_path(error, next(iter(keys.values()))) from None
        for key, config_path in keys.items():
            if key not in response.values:
                reference = str(Reference(name, path, key))[:500]
                fix = "Store the value there, or correct the reference."
                missing = not_found(f"{reference} does not exist", fix)
                raise _with_config_path(missing, config_path)
        return response

    def _unknown_provider(self, name: str, reference: Reference) -> Diagnostic:
        near = nearest_names(reference.provider, self._providers)
        known = did_you_mean(reference.provider, self._providers) if self._providers else ""
        return Diagnostic(
            "secrets.unknown_provider",
            f"`{name}` refers to {reference.provider[:100]!r}, but the worker has no such secret "
            "provider: the text is used as it is",
            ErrorClass.CONFIG,
            Severity.WARNING,
            fix=known or "Add the provider to `config.providers` of the worker.",
            config_path=name,
            suggestion=near[0] if near else "",
        )


def _with_config_path(error: PenstockError, name: str) -> PenstockError:
    return error_from_diagnostic(replace(error.diagnostic, config_path=name))


NO_SECRETS: Final = Secrets({})
"""Secrets without providers: references are text."""
