"""Keys that a connector does not have, in configurations that come from Kafka Connect.

Kafka Connect ignores them, so configurations have some: `description`, `_owner`, keys of another
version. Where a configuration names a connector by its class in Java, they are warnings, and are
not sent to the plugin; where it uses our name, they are errors, because they are misspelt keys.
`config.unknown.keys` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.model.connector import Target
from penstock.model.errors import Diagnostic, Severity
from penstock.plugin.responses import ConnectorSpec

_CODE: Final = "config.unknown_key"


def tolerates_unknown_keys(setting: str | None, spec: ConnectorSpec, class_name: str) -> bool:
    """Return whether unknown keys are warnings. `setting`: `config.unknown.keys`."""
    if setting is not None:
        return setting == "warn"
    return class_name.rpartition("/")[2] != spec.name


def with_known_keys(spec: ConnectorSpec, target: Target) -> Target:
    """Return a plugin's configuration with the keys that it describes alone."""
    names = {key.name for key in spec.keys}
    prefixes = tuple(name[:-1] for name in names if name.endswith(".*"))

    def known(config: Mapping[str, str]) -> dict[str, str]:
        return {k: v for k, v in config.items() if k in names or k.startswith(prefixes)}

    return replace(target, config=known(target.config), secrets=known(target.secrets))


def without_keys(target: Target, names: Iterable[str]) -> Target:
    """Return a plugin's configuration without some of its keys."""
    gone = set(names)

    def left(config: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in config.items() if key not in gone}

    return replace(target, config=left(target.config), secrets=left(target.secrets))


def unknown_key_warnings(findings: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the findings about unknown keys, as warnings."""
    return [
        replace(
            found,
            severity=Severity.WARNING,
            message=f"{found.message}, and it has no effect",
            fix=f"{found.fix} Or leave it: Kafka Connect ignores it, too.",
        )
        for found in findings
        if found.code == _CODE
    ]
