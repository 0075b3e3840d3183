"""`/connector-plugins`: the plugins of all workers, their keys, validation of a configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from penstock.client import ValidatedConnector
from penstock.gateway import configs, openapi_models
from penstock.gateway.access.guard import require_level
from penstock.gateway.access.users import Level
from penstock.gateway.clients import Clients
from penstock.gateway.request_input import JsonBody, PathName
from penstock.model.config_def import ConfigValue, ConnectorDefinition, KeyDefinition
from penstock.model.config_redaction import REDACTED, is_sensitive_key, redact_value
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError, Severity
from penstock.wire.worker import BuiltInPlugin, InstalledPlugin

_TYPES: Final = frozenset(
    {"BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}
)
_IMPORTANCES: Final = frozenset({"HIGH", "MEDIUM", "LOW"})


def key_info(key: KeyDefinition) -> dict[str, Any]:
    """Return a ConfigKeyInfo. A type that Kafka Connect does not have is STRING."""
    kind = key.type.upper()
    return {
        "name": key.name,
        "type": "PASSWORD" if key.sensitive else kind if kind in _TYPES else "STRING",
        "required": key.required,
        "default_value": None if key.sensitive else key.default,
        "importance": _known_or_default(key.importance, _IMPORTANCES, "MEDIUM"),
        "documentation": key.documentation,
        "group": key.group or None,
        "order_in_group": key.order if key.group else -1,
        "width": "NONE",
        "display_name": key.display_name or key.name,
        "dependents": [],
    }


def validation_result(
    described: ConnectorDefinition, config: Mapping[str, str], found: ValidatedConnector
) -> dict[str, Any]:
    """Return ConfigInfos: every key with its value and errors.

    An error of an unknown key adds that key. An error without a key is at `connector.class`.
    """
    errors: dict[str, list[str]] = defaultdict(list)
    for finding in found.diagnostics:
        if finding.severity is Severity.ERROR:
            path = finding.config_path or "connector.class"
            errors[path].append(f"{finding.message.rstrip('.')}. {finding.fix}".strip())
    keys = {key.name: key for key in (*described.framework_keys, *described.keys)}
    keys |= {name: KeyDefinition(name) for name in errors if name not in keys}
    values = {value.name: value for value in found.values}
    configs = [
        {
            "definition": key_info(key),
            "value": _key_value(key, config, values.get(name), errors[name]),
        }
        for name, key in keys.items()
    ]
    return {
        "name": described.name,
        "error_count": sum(bool(errors[name]) for name in keys),
        "groups": list(dict.fromkeys(key.group for key in keys.values() if key.group)),
        "configs": configs,
    }


def _key_value(
    key: KeyDefinition, config: Mapping[str, str], value: ConfigValue | None, errors: list[str]
) -> dict[str, Any]:
    value_text = config.get(key.name, key.default if value is None else value.value)
    if value_text is not None:
        secret = key.sensitive or is_sensitive_key(key.name)
        value_text = (
            redact_value(key.name, value_text, sensitive=secret)
            if key.name in config
            else value_text
        )
        value_text = REDACTED if secret and key.name not in config else value_text
    return {
        "name": key.name,
        "value": value_text,
        "recommended_values": list(key.choices),
        "errors": errors,
        "visible": value.visible if value else True,
    }


def _known_or_default(text: str, known: frozenset[str], otherwise: str) -> str:
    word = text.upper()
    return word if word in known else otherwise


router = APIRouter(tags=["plugins"])

_CONNECTORS: Final = frozenset({"source", "sink"})

Version = Annotated[str, Query(description="One version, a range of them, or latest.")]


@router.get("/connector-plugins", responses=openapi_models.responses(200, openapi_models.Plugins))
async def list_plugins(
    clients: Clients,
    connectorsOnly: bool = True,  # noqa: N803 - Kafka Connect's name
) -> Response:
    """Return the plugins of all workers."""
    answers = await clients.workers.call_all(lambda worker: worker.list_plugins())
    plugins = (plugin for answer in answers for plugin in answer)
    found = list_bodies(plugins, connectors_only=connectorsOnly)
    if not connectorsOnly:
        parts = await clients.workers.call_all(lambda worker: worker.list_built_in())
        found += built_in_bodies(part for answer in parts for part in answer)
    return JSONResponse(found)


@router.get(
    "/connector-plugins/{plugin}/config",
    responses=openapi_models.responses(200, openapi_models.Keys),
)
async def get_keys(clients: Clients, plugin: PathName, version: Version = "latest") -> Response:
    """Return the keys of a connector, a transform or a converter."""
    wanted = "" if version == "latest" else version
    described = await clients.workers.call_first(lambda worker: worker.describe(plugin, wanted))
    return JSONResponse([key_info(key) for key in (*described.framework_keys, *described.keys)])


@router.put(
    "/connector-plugins/{plugin}/config/validate",
    responses=openapi_models.responses(200, openapi_models.CheckedConfig),
    openapi_extra=openapi_models.request_body(openapi_models.Config),
)
async def validate_config(
    request: Request, clients: Clients, plugin: PathName, body: JsonBody
) -> Response:
    """Validate a configuration, key by key."""
    config = configs.parse_config(body)
    if "name" in config:
        require_level(request, config["name"], Level.EDITOR)
    version = config.get("connector.plugin.version", "")
    described = await clients.workers.call_first(lambda worker: worker.describe(plugin, version))
    if described.kind not in _CONNECTORS:
        raise _not_a_connector(described)
    named = config.setdefault("connector.class", plugin)
    if named != plugin:
        other = await clients.workers.call_first(lambda worker: worker.describe(named, version))
        if (other.plugin, other.name) != (described.plugin, described.name):
            raise _type_mismatch(named, plugin)
    connector = Connector(config.get("name", ""), config)
    found = await clients.workers.call_first(lambda worker: worker.validate(connector))
    return JSONResponse(validation_result(described, config, found))


def list_bodies(
    plugins: Iterable[InstalledPlugin], *, connectors_only: bool
) -> list[dict[str, Any]]:
    """Return connectors, or all kinds of plugins, each once, ordered by name and version."""
    kinds = _CONNECTORS if connectors_only else {*_CONNECTORS, "transform", "converter"}
    found = {
        (one.name, "transformation" if one.kind == "transform" else one.kind, plugin.version)
        for plugin in plugins
        for one in plugin.connectors
        if one.kind in kinds
    }
    return [
        {"class": name, "type": kind, "version": version} for name, kind, version in sorted(found)
    ]


def built_in_bodies(parts: Iterable[BuiltInPlugin]) -> list[dict[str, Any]]:
    """Return built-in plugins, each once, ordered by type, name and version."""
    found = sorted({(one.type, one.name, one.version) for one in parts})
    return [{"class": name, "type": kind, "version": version} for kind, name, version in found]


def _not_a_connector(described: ConnectorDefinition) -> ConfigError:
    return ConfigError(
        "plugin.wrong_kind",
        f"`{described.name}` is a {described.kind}, expected a source or a sink",
        fix="Validate the configuration of the connector that uses it.",
        config_path="connector.class",
    )


def _type_mismatch(named: str, plugin: str) -> ConfigError:
    return ConfigError(
        "plugin.another",
        f"Included connector type {named[:200]} does not match request type {plugin[:200]}",
        fix="Remove `connector.class`, or use the path of the plugin that it names.",
        config_path="connector.class",
    )
