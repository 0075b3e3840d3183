"""From a manifest to a plugin that serves: a process that is launched, or one elsewhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.model.errors import InternalError, PenstockError, RetriableError
from penstock.plugin import describe
from penstock.plugin.deadlines import Deadlines
from penstock.plugin.installed import remote, seal
from penstock.plugin.installed.manifest import ConnectorEntry, Manifest
from penstock.plugin.process import launch
from penstock.plugin.process.connection import SERVING, Link
from penstock.plugin.process.handshake import EarlyExit, address_of, exited_early, first_handshake
from penstock.plugin.process.local_process import Running
from penstock.plugin.process.logs import PluginLog, Redactor
from penstock.plugin.process.plugin_process import PluginProcess

_log = logging.getLogger(__name__)

_NOT_ANSWERED: Final = frozenset(
    {"plugin.call_reset", "plugin.deadline", "plugin.unavailable", "plugin.cancelled"}
)
"""Codes of a call that no health service answered."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where plugins are started, and under which limits."""

    runtime_dir: Path
    deadlines: Deadlines = field(default_factory=Deadlines)
    telemetry: Mapping[str, str] | None = None
    memory_max: int = 0
    """Bytes that a plugin process and all below it may keep; 0: any."""


async def start_plugin(manifest: Manifest, entry: ConnectorEntry, ground: Ground) -> PluginProcess:
    """Return a plugin that serves; when it does not, nothing of it is left.

    Raises:
        PenstockError: `plugin.exited_early`, `plugin.handshake_timeout`, `plugin.bad_handshake`,
            `plugin.wrong_protocol`, `plugin.foreign_address`, `plugin.not_answered`,
            `plugin.not_serving`, `plugin.describe_mismatch` and the others of `handshake`,
            `launch`, `seal`, `remote`.
    """
    if manifest.remote is not None:
        return await _connect(manifest, manifest.remote, entry, ground.deadlines)
    await asyncio.to_thread(seal.check, manifest.folder)
    order = launch.prepare(manifest, ground.runtime_dir, ground.telemetry)
    redact = Redactor()
    redact.learn([order.credential])
    log = PluginLog(manifest.name, entry.name, redact)
    who = f"{manifest.name}/{entry.name}"
    try:
        child = launch.Child.spawn(order)
    except PenstockError:
        launch.remove_folder(order.folder)
        raise
    running = Running(who, child, order.folder, log)
    link = None
    try:
        running.limit_memory(ground.memory_max)
        address = await _address(running, order, ground.deadlines)
        link = Link(who, address, order.credential, running, redact)
        await _check_health(link, ground.deadlines)
        description = await _describe(link, entry, ground.deadlines)
    except BaseException:  # cancelled too: no process without an owner
        if link:
            await link.close()
        await running.end()
        raise
    _log.info("plugin %s %s started, process %d", who, manifest.version, child.pid)
    return PluginProcess(manifest, entry, running, link, description, ground.deadlines)


async def _connect(
    manifest: Manifest, where: remote.Remote, entry: ConnectorEntry, limits: Deadlines
) -> PluginProcess:
    who = f"{manifest.name}/{entry.name}"
    tls = await asyncio.to_thread(where.tls.read) if where.tls else None
    away = remote.Away(who, where.address)
    link = Link(who, where.address, "", away, Redactor(), tls)
    try:
        try:
            status = await link.health(limits.health, wait=False)
        except PenstockError as error:
            why = error.diagnostic.message
            raise remote.unreachable(who, where.address, why) from None
        _must_serve(link, status)
        description = await _describe(link, entry, limits)
    except BaseException:
        await link.close()
        raise
    away.answers = lambda seconds: _answers(link, seconds)
    _log.info("plugin %s %s connected at %s", who, manifest.version, where.address)
    return PluginProcess(manifest, entry, away, link, description, limits)


async def _answers(link: Link, seconds: float) -> bool:
    try:
        return await link.health(seconds, wait=False) == SERVING
    except PenstockError:
        return False


async def _address(running: Running, order: launch.Launch, limits: Deadlines) -> str:
    await running.listen()
    try:
        handshake = await first_handshake(
            running.first,
            running.exited,
            order.handshake_file,
            limits.handshake,
            lambda: running.cutter.held.decode("utf-8", "replace"),
        )
    except EarlyExit:
        await running.drained()
        how = launch.how_it_ended(running.exited.result())
        raise running.killed_for or exited_early(how, running.log.tail) from None
    return address_of(handshake, order.folder)


async def _check_health(link: Link, limits: Deadlines) -> None:
    try:
        status = await link.health(limits.health)
    except PenstockError as error:
        await link.life.ended(limits.end)
        why = error.diagnostic.message
        if error.code in _NOT_ANSWERED:
            raise link.death() or _not_answered(link, why) from None
        status = why
    _must_serve(link, status)


def _not_answered(link: Link, why: str) -> PenstockError:
    return RetriableError(
        "plugin.not_answered",
        f"plugin {link.who} shook hands, but its first call was not answered: {why}",
        fix="Listen on the socket of the handshake before the handshake, and serve gRPC there "
        "without TLS, for `:authority: localhost`. See in the plugin's log what its server says.",
    )


def _must_serve(link: Link, status: str) -> None:
    if status == SERVING:
        return
    raise link.death() or RetriableError(
        "plugin.not_serving",
        f"plugin {link.who} can be reached, but its health service is not serving: {status}",
        fix="Serve grpc.health.v1 with the service name 'plugin' before the handshake.",
    )


async def _describe(
    link: Link, entry: ConnectorEntry, limits: Deadlines
) -> describe.PluginDescription:
    stub = PluginServiceStub(link.channel)
    response = await link.call(
        "plugin.describe", limits.describe, stub.Describe, pb.DescribeRequest()
    )
    description = describe.from_proto(response)
    spec = description.connector(entry.name)
    if spec is None or spec.kind is not entry.kind:
        served = ", ".join(f"{s.name} ({s.kind})" for s in description.connectors) or "nothing"
        raise InternalError(
            "plugin.describe_mismatch",
            f"the manifest promises the {entry.kind} {entry.name!r}; the plugin serves {served}",
            fix="Install the manifest that belongs to this version of the plugin.",
        )
    return description
