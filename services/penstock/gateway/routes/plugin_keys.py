"""Keys of plugins and their values, as Kafka Connect shows them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from penstock.client import ValidatedConnector
from penstock.model.described import DescribedConnector, DescribedKey, KeyValue
from penstock.model.errors import Severity
from penstock.model.sensitive import MASK, is_sensitive, shown

_TYPES: Final = frozenset(
    {"BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}
)
_IMPORTANCES: Final = frozenset({"HIGH", "MEDIUM", "LOW"})
_WIDTHS: Final = frozenset({"NONE", "SHORT", "MEDIUM", "LONG"})


def info(key: DescribedKey) -> dict[str, Any]:
    """Return a ConfigKeyInfo. Types that Kafka has no name for are texts there."""
    kind = key.type.upper()
    return {
        "name": key.name,
        "type": "PASSWORD" if key.sensitive else kind if kind in _TYPES else "STRING",
        "required": key.required,
        "default_value": None if key.sensitive else key.default,
        "importance": _one_of(key.importance, _IMPORTANCES, "MEDIUM"),
        "documentation": key.documentation,
        "group": key.group or None,
        "order_in_group": key.order if key.group else -1,
        "width": _one_of(key.width, _WIDTHS, "NONE"),
        "display_name": key.display_name or key.name,
        "dependents": list(key.dependents),
    }


def checked(
    described: DescribedConnector, config: Mapping[str, str], found: ValidatedConnector
) -> dict[str, Any]:
    """Return ConfigInfos: every key with what is wrong with it. What is wrong with a key that
    nobody has described, or with no key, stands there too, so that no error is left out.
    """
    errors: dict[str, list[str]] = defaultdict(list)
    for finding in found.diagnostics:
        if finding.severity is Severity.ERROR:
            path = finding.config_path or "connector.class"
            errors[path].append(f"{finding.message.rstrip('.')}. {finding.fix}".strip())
    keys = {key.name: key for key in (*described.framework_keys, *described.keys)}
    keys |= {name: DescribedKey(name) for name in errors if name not in keys}
    values = {value.name: value for value in found.values}
    shown_keys = [
        {"definition": info(key), "value": _value(key, config, values.get(name), errors[name])}
        for name, key in keys.items()
    ]
    return {
        "name": described.name,
        "error_count": sum(bool(errors[name]) for name in keys),
        "groups": list(dict.fromkeys(key.group for key in keys.values() if key.group)),
        "configs": shown_keys,
    }


def _value(
    key: DescribedKey, config: Mapping[str, str], value: KeyValue | None, errors: list[str]
) -> dict[str, Any]:
    said = config.get(key.name, key.default if value is None else value.value)
    if said is not None:
        secret = key.sensitive or is_sensitive(key.name)
        said = shown(key.name, said, sensitive=secret) if key.name in config else said
        said = MASK if secret and key.name not in config else said
    recommended = value.recommended if value and value.recommended else key.choices
    return {
        "name": key.name,
        "value": said,
        "recommended_values": list(recommended),
        "errors": errors,
        "visible": value.visible if value else True,
    }


def _one_of(text: str, known: frozenset[str], otherwise: str) -> str:
    word = text.upper()
    return word if word in known else otherwise
