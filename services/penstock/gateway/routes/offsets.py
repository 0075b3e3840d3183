"""`/connectors/{connector}/offsets`: read offsets; alter or reset them while it is STOPPED.

Altered offsets go to the plugin of the connector first, then to the offset service. The plugin may
change an external system before they are stored. If that fails, or a user has resumed the connector
meanwhile (the offset service checks it), nothing is stored. The same request may be sent again,
because plugins are idempotent here. When a change is sent to the plugin in several parts, it checks
all parts before it applies the first.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, TypeAlias

from fastapi import APIRouter
from fastapi.responses import Response

from penstock.gateway.bodies import request_body, responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.request_input import JsonBody, PathName, require_object, to_plain
from penstock.gateway.routes import bodies
from penstock.model.admin import AlteredOffsets
from penstock.model.connector import TOPIC_KINDS, ApplyAction, Connector, ConnectorKind
from penstock.model.errors import ConfigError
from penstock.model.offset import TIMESTAMP
from penstock_values.identity import canonical_json, parse_canonical, partition_id, partition_key

MAX_PARTITIONS_PER_CALL: Final = 800
"""Partitions of one call to the plugin. With the longest ids and offsets they fit in a message."""

Offsets: TypeAlias = Mapping[str, Mapping[str, Any] | None]
Changes: TypeAlias = Callable[[], AsyncIterator[tuple[str, Mapping[str, Any] | None]]]
"""Returns a new iterator over partition ids and requested offsets."""


async def change_offsets(clients: ServiceClients, stored: Connector, offsets: Offsets) -> bool:
    """Alter offsets, as the plugin normalized them. Returns whether a plugin was called."""
    await clients.offset.check_alterable(stored.name, stored.generation)
    altered = await _call_plugin(clients, stored, offsets)
    await clients.offset.alter(stored.name, stored.generation, altered.offsets)
    return altered.plugin_called


async def clear_offsets(
    clients: ServiceClients, stored: Connector, *, forget: bool = False
) -> bool:
    """Remove all offsets. Returns whether a plugin was called.

    `forget` also removes their history: the connector is deleted next.
    """

    async def removed() -> AsyncIterator[tuple[str, None]]:
        """Yield the removal of each offset."""
        async for id_, _ in clients.offset.list(stored.generation):
            yield id_, None

    await clients.offset.check_alterable(stored.name, stored.generation)
    plugin_called = await confirm_with_plugin(clients, stored, removed)
    await clients.offset.reset(stored.name, stored.generation, forget=forget)
    if not forget:  # on deletion the config service has the plugin remove external resources
        worker = await clients.workers.get_any()
        await worker.apply(stored, ApplyAction.RESET)
    return plugin_called


async def confirm_with_plugin(
    clients: ServiceClients, stored: Connector, changes: Changes, *, dry_run: bool = False
) -> bool:
    """Have the plugin check and apply many changes. Returns whether a plugin was called.

    Its normalized offsets are not used: the changes are offsets of the plugin itself, or None.

    Raises:
        PenstockError: the plugin refuses a change.
    """
    if not (await _call_plugin(clients, stored, {}, dry_run=True)).plugin_called:
        return False
    for only_check in (True,) if dry_run else (True, False):
        async for part in _batches(changes):
            await _call_plugin(clients, stored, part, dry_run=only_check)
    return True


async def _call_plugin(
    clients: ServiceClients, stored: Connector, offsets: Offsets, *, dry_run: bool = False
) -> AlteredOffsets:
    worker = await clients.workers.get_any()
    return await worker.alter_offsets(stored, offsets, dry_run=dry_run)


async def _batches(changes: Changes) -> AsyncIterator[Offsets]:
    """Yield the changes in parts; without changes one empty part."""
    part: dict[str, Mapping[str, Any] | None] = {}
    async for id_, offset in changes():
        if len(part) == MAX_PARTITIONS_PER_CALL:
            yield part
            part = {}
        part[id_] = offset
    yield part


router = APIRouter(tags=["offsets"])

_PARTITION_KEYS: Final = frozenset({"kafka_topic", "kafka_partition"})
_QUEUE: Final = "queue"
"""Field of the partitions of RocketMQ's topics, which Kafka Connect has no names for."""

_EXAMPLE: Final = (
    'Write for example: {"partition": {"kafka_topic": "orders", "kafka_partition": 0}, '
    '"offset": {"kafka_offset": 42}}.'
)


@router.get(
    "/connectors/{connector}/offsets",
    responses=responses(200, bodies.Offsets),
)
async def list_offsets(clients: Clients, connector: PathName) -> Response:
    """Return the offsets of a connector by partition."""
    stored = await clients.config.get(connector)
    found = [
        offset_body(stored.kind, partition_key(id_), offset)
        async for id_, offset in clients.offset.list(stored.generation)
    ]
    return bodies.Offsets(offsets=found).respond()


@router.patch(
    "/connectors/{connector}/offsets",
    responses=responses(200, bodies.Message),
    openapi_extra=request_body(bodies.Offsets),
)
async def alter_offsets(clients: Clients, connector: PathName, body: JsonBody) -> Response:
    """Alter offsets; null removes one. The connector must be STOPPED and its plugin must agree."""
    stored = await clients.config.get(connector)
    wanted = parse_offsets(stored.kind, to_plain(body))
    return _message("altered", plugin_called=await change_offsets(clients, stored, wanted))


@router.delete(
    "/connectors/{connector}/offsets",
    responses=responses(200, bodies.Message),
)
async def reset_offsets(clients: Clients, connector: PathName) -> Response:
    """Reset all offsets. The connector must be STOPPED and its plugin must agree."""
    stored = await clients.config.get(connector)
    return _message("reset", plugin_called=await clear_offsets(clients, stored))


def _message(what: str, *, plugin_called: bool) -> Response:
    """Return Kafka Connect's message, which depends on whether the plugin was called."""
    if plugin_called:
        message = f"The offsets for this connector have been {what} successfully"
    else:
        message = (
            "The Connect framework-managed offsets for this connector have been "
            f"{what} successfully. However, if this connector manages offsets externally, they "
            f"will need to be manually {what} in the system that the connector uses."
        )
    return bodies.Message(message=message).respond()


def offset_body(
    kind: ConnectorKind, key: Mapping[str, Any], offset: Mapping[str, Any]
) -> bodies.Offset:
    """Return a partition and its offset; those of topics have Kafka Connect's names.

    Values without a JSON type are tagged, such as `{"$date": …}`, and are accepted in this form.
    """
    if kind in TOPIC_KINDS and _QUEUE not in key:
        key = {"kafka_topic": key["topic"], "kafka_partition": key["partition"]}
        offset = {"kafka_offset": offset["offset"]}
    return bodies.Offset(partition=_to_json(key), offset=_to_json(offset))


def parse_offsets(kind: ConnectorKind, body: Any) -> dict[str, Mapping[str, Any] | None]:
    """Return the offsets of a request body by partition id; None removes one.

    Raises:
        ConfigError: `offset.nothing_to_alter`, `offset.not_a_partition`, `offset.repeated`.
    """
    listed = require_object(body, "the request").get("offsets")
    if not isinstance(listed, list) or not listed:
        raise ConfigError(
            "offset.nothing_to_alter",
            "Partitions / offsets need to be provided for an alter offsets request",
            fix='Send {"offsets": [{"partition": {…}, "offset": {…}}]}.',
        )
    found: dict[str, Mapping[str, Any] | None] = {}
    for number, one in enumerate(listed):
        id_, offset = _parse_offset(kind, one, f"offsets[{number}]")
        if id_ in found:
            raise ConfigError(
                "offset.repeated",
                f"offsets[{number}] repeats the partition {id_[:200]}",
                fix="Name each partition once.",
            )
        found[id_] = offset
    return found


def _parse_offset(
    kind: ConnectorKind, one: Any, where: str
) -> tuple[str, Mapping[str, Any] | None]:
    fields = require_object(one, where)
    if kind in TOPIC_KINDS and fields.get("partition") is None:
        raise _invalid_topic_offset(
            "The partition for a sink connector offset cannot be null or missing", where
        )
    key = require_object(fields.get("partition"), f"{where}.partition")
    offset = fields.get("offset")
    if offset is not None:
        offset = require_object(offset, f"{where}.offset")
    if kind in TOPIC_KINDS and _QUEUE not in key:
        key, offset = _parse_topic_offset(key, offset, where)
    id_ = partition_id(parse_fields(key, f"{where}.partition"))
    return id_, None if offset is None else parse_fields(offset, f"{where}.offset")


def _parse_topic_offset(
    key: Mapping[str, Any], offset: Mapping[str, Any] | None, where: str
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    topic, partition = key.get("kafka_topic"), _whole_number(key.get("kafka_partition"))
    row = None if offset is None else _whole_number(offset.get("kafka_offset"))
    if not isinstance(topic, str) or not topic or set(key) != _PARTITION_KEYS:
        raise _invalid_topic_offset(
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
            "'kafka_partition', and no others",
            where,
        )
    if partition is None:
        raise _invalid_topic_offset(
            "Partition values for sink connectors need to be integers", where
        )
    if offset is None:
        return {"topic": topic, "partition": partition}, None
    if set(offset) == {TIMESTAMP}:
        return {"topic": topic, "partition": partition}, offset
    if set(offset) != {"kafka_offset"}:
        raise _invalid_topic_offset(
            "The offset for a sink connector should either be null or contain the key "
            "'kafka_offset', and no others",
            where,
        )
    if row is None:
        raise _invalid_topic_offset("Offset values for sink connectors need to be integers", where)
    return {"topic": topic, "partition": partition}, {"offset": row}


def _whole_number(value: Any) -> int | None:
    """Return a whole number; None for other values. A string of digits is accepted, as in Kafka
    Connect.
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


def _invalid_topic_offset(message: str, where: str) -> ConfigError:
    """Return an error with a message of Kafka Connect."""
    return ConfigError("offset.not_a_partition", f"{where}: {message}", fix=_EXAMPLE)


def _to_json(fields: Mapping[str, Any]) -> Any:
    return json.loads(canonical_json(dict(fields)))


def parse_fields(value: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the fields of a partition or an offset in a body, with numbers and tagged values
    decoded.

    Raises:
        ConfigError: `http.not_json`, `offset.not_a_value`.
    """
    try:
        found = parse_canonical(canonical_json(dict(to_plain(value))))
    except ValueError as error:
        found, why = None, str(error)[:200]
    else:
        why = "expected an object"
    if not isinstance(found, dict):
        raise ConfigError(
            "offset.not_a_value",
            f"`{where}` cannot be read: {why}",
            fix='Write values without a JSON type as GET returns them: {"$date": "2026-01-31"}.',
            config_path=where,
        )
    return found
