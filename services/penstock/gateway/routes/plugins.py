"""`/connector-plugins`: what is installed on any worker, and what each can be told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from penstock.gateway import configs, documents
from penstock.gateway.access.guard import require
from penstock.gateway.access.users import Level
from penstock.gateway.clients import Services
from penstock.gateway.paths import Name
from penstock.gateway.request_body import Json
from penstock.gateway.routes import plugin_keys
from penstock.model.connector import Connector
from penstock.model.described import DescribedConnector
from penstock.model.errors import ConfigError
from penstock.wire.built_in import BuiltIn
from penstock.wire.worker import InstalledPlugin

routes = APIRouter(tags=["plugins"])

_CONNECTORS: Final = frozenset({"source", "sink"})

Version = Annotated[str, Query(description="One version, a range of them, or latest.")]


@routes.get("/connector-plugins", responses=documents.answers(200, documents.Plugins))
async def list_plugins(
    asks: Services,
    connectorsOnly: bool = True,  # noqa: N803 - Kafka Connect's name
) -> Response:
    """Return what the workers have, all of them together."""
    answers = await asks.workers.each(lambda worker: worker.list_plugins())
    plugins = (plugin for answer in answers for plugin in answer)
    found = listed(plugins, connectors_only=connectorsOnly)
    if not connectorsOnly:
        parts = await asks.workers.each(lambda worker: worker.list_built_in())
        found += built_in(part for answer in parts for part in answer)
    return JSONResponse(found)


@routes.get("/connector-plugins/{plugin}/config", responses=documents.answers(200, documents.Keys))
async def get_keys(asks: Services, plugin: Name, version: Version = "latest") -> Response:
    """Return the keys of a connector, a transform or a converter."""
    wanted = "" if version == "latest" else version
    described = await asks.workers.first(lambda worker: worker.describe(plugin, wanted))
    return JSONResponse(
        [plugin_keys.info(key) for key in (*described.framework_keys, *described.keys)]
    )


@routes.put(
    "/connector-plugins/{plugin}/config/validate",
    responses=documents.answers(200, documents.CheckedConfig),
    openapi_extra=documents.takes(documents.Config),
)
async def validate(request: Request, asks: Services, plugin: Name, body: Json) -> Response:
    """Check a configuration, key by key."""
    config = configs.texts(body)
    if "name" in config:
        require(request, config["name"], Level.EDITOR)
    version = config.get("connector.plugin.version", "")
    described = await asks.workers.first(lambda worker: worker.describe(plugin, version))
    if described.kind not in _CONNECTORS:
        raise _no_connector(described)
    named = config.setdefault("connector.class", plugin)
    if named != plugin:
        other = await asks.workers.first(lambda worker: worker.describe(named, version))
        if (other.plugin, other.name) != (described.plugin, described.name):
            raise _another(named, plugin)
    connector = Connector(config.get("name", ""), config)
    found = await asks.workers.first(lambda worker: worker.validate(connector))
    return JSONResponse(plugin_keys.checked(described, config, found))


def listed(plugins: Iterable[InstalledPlugin], *, connectors_only: bool) -> list[dict[str, Any]]:
    """Return connectors, and on demand the rest, each once, ordered by name and version."""
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


def built_in(parts: Iterable[BuiltIn]) -> list[dict[str, Any]]:
    """Return what needs no plugin, each once, ordered by what it is, name and version."""
    found = sorted({(one.type, one.name, one.version) for one in parts})
    return [{"class": name, "type": kind, "version": version} for kind, name, version in found]


def _no_connector(described: DescribedConnector) -> ConfigError:
    return ConfigError(
        "plugin.wrong_kind",
        f"`{described.name}` is no connector: it has no configuration of its own to check",
        fix="Check the connector that uses it.",
        config_path="connector.class",
    )


def _another(named: str, plugin: str) -> ConfigError:
    return ConfigError(
        "plugin.another",
        f"Included connector type {named[:200]} does not match request type {plugin[:200]}",
        fix="Leave `connector.class` out, or ask for the plugin that it names.",
        config_path="connector.class",
    )
