"""The start of a plugin: launch a local process, or connect to a remote plugin.

A remote plugin has no process that the host may start or end. The host connects when a task needs
the plugin and again after the connection was lost. Other hosts may share the plugin, so the host
never ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.model.errors import AuthError, InternalError, PenstockError, RetriableError
from penstock.plugin import responses
from penstock.plugin.catalog import seal
from penstock.plugin.catalog.manifest import ConnectorEntry, Manifest, RemoteAddress
from penstock.plugin.errors import escape_text
from penstock.plugin.limits import Deadlines, LaunchOptions
from penstock.plugin.process.attempts import OnAttempt
from penstock.plugin.process.connection import SERVING, Connection
from penstock.plugin.process.handshake import (
    EarlyExitError,
    dial_address,
    exited_early,
    wait_for_handshake,
)
from penstock.plugin.process.local_process import (
    ChildProcess,
    LaunchSpec,
    LocalProcess,
    describe_exit,
    prepare_launch,
    remove_folder,
)
from penstock.plugin.process.logs import PluginLog, Redactor
from penstock.plugin.process.plugin_process import PluginProcess
from penstock_values.memory_files import own_memory_file

_log = logging.getLogger(__name__)

_NOT_ANSWERED: Final = frozenset(
    {"plugin.call_reset", "plugin.deadline", "plugin.unavailable", "plugin.cancelled"}
)
"""Error codes of a health check that no health service answered."""

_TLS_WORDS: Final = ("handshake", "ssl_", "certificate", "tls", "peer name", "verification")
"""Words in gRPC's messages of failed TLS connections."""


async def start_plugin(
    manifest: Manifest,
    entry: ConnectorEntry,
    options: LaunchOptions,
    on_attempt: OnAttempt | None = None,
) -> PluginProcess:
    """Start or connect to a plugin and check that it serves. A failed start leaves nothing behind.
    `on_attempt` gets its failed attempts to reach its system.

    Raises:
        PenstockError: `plugin.exited_early`, `plugin.handshake_timeout`, `plugin.bad_handshake`,
            `plugin.wrong_protocol`, `plugin.foreign_address`, `plugin.not_answered`,
            `plugin.not_serving`, `plugin.describe_mismatch`, `plugin.unreachable` and the other
            codes of `handshake`, `local_process` and `seal`.
    """
    if manifest.remote is not None:
        return await _connect(manifest, manifest.remote, entry, options.deadlines)
    await asyncio.to_thread(seal.check_seal, manifest.folder)
    launch = prepare_launch(manifest, options.runtime_dir, options.telemetry)
    redact = Redactor()
    redact.add_secrets([launch.credential])
    log = PluginLog(manifest.name, entry.name, redact, on_attempt=on_attempt)
    name = f"{manifest.name}/{entry.name}"
    try:
        child = ChildProcess.spawn(launch)
    except PenstockError:
        remove_folder(launch.folder)
        raise
    process = LocalProcess(name, child, launch.folder, log)
    connection = None
    try:
        process.limit_memory(options.max_memory_bytes)
        address = await _receive_address(process, launch, manifest.install, options.deadlines)
        connection = Connection(name, address, launch.credential, process, redact)
        await _check_health(connection, options.deadlines)
        description = await _describe(connection, entry, options.deadlines)
    except BaseException:  # a cancelled start, too, leaves no process without an owner
        if connection:
            await connection.close()
        await process.terminate()
        raise
    _log.info("plugin %s %s started, process %d", name, manifest.version, child.pid)
    return PluginProcess(manifest, entry, process, connection, description, options.deadlines)


async def _connect(
    manifest: Manifest, remote: RemoteAddress, entry: ConnectorEntry, deadlines: Deadlines
) -> PluginProcess:
    name = f"{manifest.name}/{entry.name}"
    tls = await asyncio.to_thread(remote.tls.read) if remote.tls else None
    process = RemotePlugin(name, remote.address)
    connection = Connection(name, remote.address, "", process, Redactor(), tls)
    try:
        try:
            status = await connection.check_health(deadlines.health_s, wait=False)
        except PenstockError as error:
            raise unreachable(name, remote.address, error.diagnostic.message) from None
        _require_serving(connection, status)
        description = await _describe(connection, entry, deadlines)
    except BaseException:
        await connection.close()
        raise
    process.probe = lambda timeout_s: _is_serving(connection, timeout_s)
    _log.info("plugin %s %s connected at %s", name, manifest.version, remote.address)
    return PluginProcess(manifest, entry, process, connection, description, deadlines)


async def _is_serving(connection: Connection, timeout_s: float) -> bool:
    try:
        return await connection.check_health(timeout_s, wait=False) == SERVING
    except PenstockError:
        return False


async def _receive_address(
    process: LocalProcess, launch: LaunchSpec, install: str, deadlines: Deadlines
) -> str:
    await process.read_output()
    try:
        handshake = await wait_for_handshake(
            process.scanner,
            process.exited,
            launch.handshake_file,
            deadlines.handshake_s,
            lambda: process.stdout_buffer.held.decode("utf-8", "replace"),
        )
    except EarlyExitError:
        await process.drain_output()
        how = describe_exit(process.exited.result())
        raise process.kill_reason or exited_early(how, process.log.tail, install) from None
    return dial_address(handshake, launch.folder)


async def _check_health(connection: Connection, deadlines: Deadlines) -> None:
    try:
        status = await connection.check_health(deadlines.health_s)
    except PenstockError as error:
        await connection.process.wait_for_exit(deadlines.end_s)
        why = error.diagnostic.message
        if error.code in _NOT_ANSWERED:
            raise connection.exit_error() or _not_answered(connection, why) from None
        status = why
    _require_serving(connection, status)


def _not_answered(connection: Connection, why: str) -> PenstockError:
    return RetriableError(
        "plugin.not_answered",
        f"plugin {connection.name} sent its handshake, but its first call was not answered: {why}",
        fix="Listen on the socket before printing the handshake, and serve gRPC there "
        "without TLS, for `:authority: localhost`. The log of the plugin may show more.",
    )


def _require_serving(connection: Connection, status: str) -> None:
    if status == SERVING:
        return
    raise connection.exit_error() or RetriableError(
        "plugin.not_serving",
        f"plugin {connection.name} can be reached, but its health service is not serving: {status}",
        fix="Serve grpc.health.v1 with the service name 'plugin' before the handshake.",
    )


async def _describe(
    connection: Connection, entry: ConnectorEntry, deadlines: Deadlines
) -> responses.PluginDescription:
    stub = PluginServiceStub(connection.channel)
    response = await connection.call(
        "plugin.describe",
        deadlines.describe_s,
        stub.Describe,
        _describe_request(connection.address),
    )
    description = responses.description_from_proto(response)
    spec = description.connector(entry.name)
    if spec is None or spec.kind is not entry.kind:
        served = ", ".join(f"{s.name} ({s.kind})" for s in description.connectors) or "nothing"
        raise InternalError(
            "plugin.describe_mismatch",
            f"the manifest promises the {entry.kind} {entry.name!r}; the plugin serves {served}",
            fix="Install the manifest that belongs to this version of the plugin.",
        )
    return description


def _describe_request(address: str) -> pb.DescribeRequest:
    """Offer memory files to a plugin on this machine."""
    is_local = address.startswith("unix:")
    return pb.DescribeRequest(memory_file=own_memory_file() if is_local else None)


class RemotePlugin:
    """A remote plugin as the process of a connection: it has ended when it does not answer."""

    pid: Final = 0

    def __init__(self, name: str, address: str) -> None:
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.probe: Callable[[float], Awaitable[bool]] | None = None
        """Returns whether the plugin serves, after at most so many seconds."""
        self._name, self._address = name, address

    async def wait_for_exit(self, timeout_s: float) -> bool:
        """Probe the plugin: when it does not answer within `timeout_s`, it has ended."""
        if not self.exited.done() and self.probe and not await self.probe(timeout_s):
            await self.terminate()
        return self.exited.done()

    def exit_error(self) -> PenstockError | None:
        """Return that it was lost; None while it answers."""
        if not self.exited.done():
            return None
        return RetriableError(
            "plugin.lost",
            f"plugin {self._name} at {self._address} does not answer any more",
            fix="The host connects again by itself. Check that the plugin runs and can be reached.",
        )

    async def terminate(self) -> None:
        """Disconnect; the plugin continues for other hosts."""
        if not self.exited.done():
            self.exited.set_result(0)


def unreachable(name: str, address: str, why: str) -> PenstockError:
    """Return the error for a remote plugin to which the host cannot connect."""
    text = f"plugin {name} at {address} cannot be reached: {escape_text(why, 500)}"
    if any(word in why.lower() for word in _TLS_WORDS):
        return AuthError(
            "plugin.tls_refused",
            text,
            config_path="tls",
            fix="Set `ca` in the manifest to the authority of the server's certificate and "
            "`server_name` to the name in it, and use a `certificate` that the server trusts.",
        )
    return RetriableError(
        "plugin.unreachable",
        text,
        config_path="address",
        fix="Start the plugin there (`--listen`), or correct `address` in its manifest. A plugin "
        "that serves over TLS closes a connection without TLS, or with an untrusted certificate, "
        "without a message.",
    )
