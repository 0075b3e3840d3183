"""`/connectors/{connector}/offsets`: how far it is; set by hand while it is stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from penstock.gateway import documents, offset_changes
from penstock.gateway.clients import Services
from penstock.gateway.paths import Name
from penstock.gateway.request_body import Json, objects, plain
from penstock.gateway.response_bodies import FROM_TOPICS
from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError
from penstock.model.identity import canonical_json, parse_canonical, partition_id, partition_key

routes = APIRouter(tags=["offsets"])

_PARTITION: Final = frozenset({"kafka_topic", "kafka_partition"})
_SO: Final = (
    'Write it so: {"partition": {"kafka_topic": "orders", "kafka_partition": 0}, '
    '"offset": {"kafka_offset": 42}}.'
)


@routes.get("/connectors/{connector}/offsets", responses=documents.answers(200, documents.Offsets))
async def get(asks: Services, connector: Name) -> Response:
    """Return the offset of each partition that has one."""
    stored = await asks.config.get(connector)
    found = [
        shown(stored.kind, partition_key(id_), offset)
        async for id_, offset in asks.offset.list(stored.generation)
    ]
    return JSONResponse({"offsets": found})


@routes.patch(
    "/connectors/{connector}/offsets",
    responses=documents.answers(200, documents.Message),
    openapi_extra=documents.takes(documents.Offsets),
)
async def alter(asks: Services, connector: Name, body: Json) -> Response:
    """Set offsets, or take away those that are null; refused unless it is STOPPED, and where its
    plugin refuses them.
    """
    stored = await asks.config.get(connector)
    wanted = asked(stored.kind, plain(body))
    return _done("altered", told=await offset_changes.alter(asks, stored, wanted))


@routes.delete(
    "/connectors/{connector}/offsets", responses=documents.answers(200, documents.Message)
)
async def reset(asks: Services, connector: Name) -> Response:
    """Take all offsets away; refused unless it is STOPPED, and where its plugin refuses."""
    stored = await asks.config.get(connector)
    return _done("reset", told=await offset_changes.reset(asks, stored))


def _done(what: str, *, told: bool) -> Response:
    """Answer in the words of Kafka Connect; `told`: the connector's plugin knows of it."""
    if told:
        said = f"The offsets for this connector have been {what} successfully"
        return JSONResponse({"message": said})
    return JSONResponse(
        {
            "message": "The Connect framework-managed offsets for this connector have been "
            f"{what} successfully. However, if this connector manages offsets externally, they "
            f"will need to be manually {what} in the system that the connector uses."
        }
    )


def shown(
    kind: ConnectorKind, key: Mapping[str, Any], offset: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return a partition and its offset, those of topics under Kafka Connect's names. What JSON has
    no form for stays tagged, and is read back so.
    """
    if kind in FROM_TOPICS:
        key = {"kafka_topic": key["topic"], "kafka_partition": key["partition"]}
        offset = {"kafka_offset": offset["offset"]}
    return {"partition": _tagged(key), "offset": _tagged(offset)}


def asked(kind: ConnectorKind, body: Any) -> dict[str, Mapping[str, Any] | None]:
    """Return the offsets that a body asks for, by partition id; None takes one away.

    Raises:
        ConfigError: `offset.nothing_to_alter`, `offset.not_a_partition`, `offset.repeated`.
    """
    listed = objects(body, "the request").get("offsets")
    if not isinstance(listed, list) or not listed:
        raise ConfigError(
            "offset.nothing_to_alter",
            "Partitions / offsets need to be provided for an alter offsets request",
            fix='Send {"offsets": [{"partition": {…}, "offset": {…}}]}.',
        )
    found: dict[str, Mapping[str, Any] | None] = {}
    for number, one in enumerate(listed):
        id_, offset = _asked(kind, one, f"offsets[{number}]")
        if id_ in found:
            raise ConfigError(
                "offset.repeated",
                f"offsets[{number}] names a partition once more: {id_[:200]}",
                fix="Name each partition once.",
            )
        found[id_] = offset
    return found


def _asked(kind: ConnectorKind, one: Any, where: str) -> tuple[str, Mapping[str, Any] | None]:
    fields = objects(one, where)
    if kind in FROM_TOPICS and fields.get("partition") is None:
        raise _not_of_topic(
            "The partition for a sink connector offset cannot be null or missing", where
        )
    key = objects(fields.get("partition"), f"{where}.partition")
    offset = fields.get("offset")
    if offset is not None:
        offset = objects(offset, f"{where}.offset")
    if kind in FROM_TOPICS:
        key, offset = _of_topic(key, offset, where)
    id_ = partition_id(fields_of(key, f"{where}.partition"))
    return id_, None if offset is None else fields_of(offset, f"{where}.offset")


def _of_topic(
    key: Mapping[str, Any], offset: Mapping[str, Any] | None, where: str
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    topic, partition = key.get("kafka_topic"), _whole(key.get("kafka_partition"))
    row = None if offset is None else _whole(offset.get("kafka_offset"))
    if not isinstance(topic, str) or not topic or set(key) != _PARTITION:
        raise _not_of_topic(
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
            "'kafka_partition', and no others",
            where,
        )
    if partition is None:
        raise _not_of_topic("Partition values for sink connectors need to be integers", where)
    if offset is None:
        return {"topic": topic, "partition": partition}, None
    if set(offset) != {"kafka_offset"}:
        raise _not_of_topic(
            "The offset for a sink connector should either be null or contain the key "
            "'kafka_offset', and no others",
            where,
        )
    if row is None:
        raise _not_of_topic("Offset values for sink connectors need to be integers", where)
    return {"topic": topic, "partition": partition}, {"offset": row}


def _whole(value: Any) -> int | None:
    """Return a whole number; a text of one will do, as in Kafka Connect."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


def _not_of_topic(said: str, where: str) -> ConfigError:
    """Say it in Kafka Connect's words."""
    return ConfigError("offset.not_a_partition", f"{where}: {said}", fix=_SO)


def _tagged(fields: Mapping[str, Any]) -> Any:
    return json.loads(canonical_json(dict(fields)))


def fields_of(value: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the fields of a partition or an offset that a body has: numbers and tagged values mean
    what they say.

    Raises:
        ConfigError: `http.not_json`, `offset.not_a_value`.
    """
    try:
        found = parse_canonical(canonical_json(dict(plain(value))))
    except ValueError as error:
        found, why = None, str(error)[:200]
    else:
        why = "it is a single value"
    if not isinstance(found, dict):
        raise ConfigError(
            "offset.not_a_value",
            f"`{where}` cannot be read: {why}",
            fix='Write what JSON has no form for as GET tells it: {"$date": "2026-01-31"}.',
            config_path=where,
        )
    return found
