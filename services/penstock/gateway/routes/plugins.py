"""`/connector-plugins`: the plugins of all workers, their keys, validation of a configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from penstock.gateway import configs
from penstock.gateway.access.guard import require_level
from penstock.gateway.access.users import Level
from penstock.gateway.bodies import request_body, responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.request_input import JsonBody, PathName
from penstock.gateway.routes import bodies
from penstock.model.config_def import ConnectorDefinition
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError
from penstock.model.plugins import BuiltInPlugin, InstalledPlugin

router = APIRouter(tags=["plugins"])

_CONNECTORS: Final = frozenset({"source", "sink"})

Version = Annotated[str, Query(description="One version, a range of them, or latest.")]


@router.get("/connector-plugins", responses=responses(200, bodies.Plugins))
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
    return bodies.Plugins(found).respond()


@router.get(
    "/connector-plugins/{plugin}/config",
    responses=responses(200, bodies.Keys),
)
async def get_keys(clients: Clients, plugin: PathName, version: Version = "latest") -> Response:
    """Return the keys of a connector, a transform or a converter."""
    wanted = "" if version == "latest" else version
    described = await clients.workers.call_first(lambda worker: worker.describe(plugin, wanted))
    keys = (*described.framework_keys, *described.keys)
    return bodies.Keys([bodies.KeyInfo.of(key) for key in keys]).respond()


@router.put(
    "/connector-plugins/{plugin}/config/validate",
    responses=responses(200, bodies.CheckedConfig),
    openapi_extra=request_body(bodies.Config),
)
async def validate_config(
    request: Request, clients: Clients, plugin: PathName, body: JsonBody
) -> Response:
    """Validate a configuration, key by key."""
    config = configs.parse_config(body)
    if "name" in config:
        require_level(request, config["name"], Level.EDITOR)
    version = config.get("connector.plugin.version", "")
    described = await _describe(clients, plugin, version)
    if described.kind not in _CONNECTORS:
        raise _not_a_connector(described)
    named = config.setdefault("connector.class", plugin)
    if named != plugin:
        other = await _describe(clients, named, version)
        if (other.plugin, other.name) != (described.plugin, described.name):
            raise _type_mismatch(named, plugin)
    connector = Connector(config.get("name", ""), config)
    found = await clients.workers.call_first(lambda worker: worker.validate(connector))
    return bodies.CheckedConfig.of(described, config, found).respond()


async def _describe(clients: ServiceClients, name: str, version: str) -> ConnectorDefinition:
    """Return the definition of a plugin. Without the wanted version it is that of the newest one:
    the version is an error of its key, which validation finds.
    """
    workers = clients.workers
    try:
        return await workers.call_first(lambda worker: worker.describe(name, version))
    except ConfigError as error:
        if not version or error.diagnostic.config_path != "connector.plugin.version":
            raise
    return await workers.call_first(lambda worker: worker.describe(name, ""))


def list_bodies(
    plugins: Iterable[InstalledPlugin], *, connectors_only: bool
) -> list[bodies.Plugin]:
    """Return connectors, or all kinds of plugins, each once, ordered by name and version. Java's
    class names of a connector are entries of their own: clients look for the class of a
    configuration there.
    """
    kinds = _CONNECTORS if connectors_only else {*_CONNECTORS, "transform", "converter"}
    found = {
        (name, "transformation" if one.kind == "transform" else one.kind, plugin.version)
        for plugin in plugins
        for one in plugin.connectors
        if one.kind in kinds
        for name in (one.name, *(alias for alias in one.aliases if "." in alias))
    }
    return [bodies.Plugin.of(*one) for one in sorted(found)]


def built_in_bodies(parts: Iterable[BuiltInPlugin]) -> list[bodies.Plugin]:
    """Return built-in plugins, each once, ordered by type, name and version."""
    found = sorted({(one.type, one.name, one.version) for one in parts})
    return [bodies.Plugin.of(name, kind, version) for kind, name, version in found]


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
