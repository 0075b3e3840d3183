"""How a process begins: its handshake, and what it refuses to begin without."""

from __future__ import annotations

from grpc_health.v1 import health_pb2

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.conformance.bench import Bench
from penstock.conformance.calls import RefusedError, call
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.process import started
from penstock.conformance.verdict import RuleBrokenError, require
from penstock.model.errors import InternalError
from penstock.plugin.process.handshake import address_of

_FILE = "PENSTOCK_HANDSHAKE_FILE"


@case("start.handshake")
async def handshake(bench: Bench, case: Case) -> None:
    """The line stands whole on a stdout that may be dirty, when no file is named for it."""
    async with started(
        bench.grounds.manifest, bench.grounds.runtime_dir, without=(_FILE,)
    ) as plugin:
        found = await plugin.handshake(case.seconds)
        try:
            address_of(found, plugin.launch.folder)
        except InternalError as error:
            raise RuleBrokenError(str(error)) from None


@case("start.once")
async def once(bench: Bench, case: Case) -> None:
    """There is one handshake, not a second that says something else."""
    async with started(
        bench.grounds.manifest, bench.grounds.runtime_dir, without=(_FILE,)
    ) as plugin:
        await plugin.handshake(case.seconds)
        await plugin.connect()
        request = health_pb2.HealthCheckRequest(service="plugin")
        await call(plugin.health.Check, request, plugin.metadata)
        plugin.leave()
        await plugin.ends(case.seconds)
        await plugin.heard_all()
        count = len(plugin.handshakes) + len(plugin.broken_lines)
        require(count == 1, f"{count} lines of its output are handshakes")


@case("start.file")
async def file(bench: Bench, case: Case) -> None:
    """Where a file is named for the handshake, it is there, whole, and stdout needs none."""
    async with started(bench.grounds.manifest, bench.grounds.runtime_dir) as plugin:
        await plugin.handshake(case.seconds)
        require(plugin.launch.handshake_file.is_file(), f"{_FILE} was not written")


@case("start.cookie")
async def cookie(bench: Bench, case: Case) -> None:
    """Without the cookie of a host it says how it is run, and fails."""
    async with started(
        bench.grounds.manifest,
        bench.grounds.runtime_dir,
        without=("PENSTOCK_PLUGIN_MAGIC_COOKIE",),
    ) as plugin:
        require(await plugin.ends(case.seconds), f"it ran for {case.seconds:g} s without a cookie")
        await plugin.heard_all()
        require(plugin.exit_code == 1, f"it ended with status {plugin.exit_code}, not 1")
        require(not plugin.handshakes, "it shook hands without a cookie")
        require(plugin.output.strip(), "it ended without a word on how it is run")


@case("start.version")
async def version(bench: Bench, case: Case) -> None:
    """A host that speaks no version of its own is refused, and told so."""
    async with started(
        bench.grounds.manifest,
        bench.grounds.runtime_dir,
        environment={"PLUGIN_PROTOCOL_VERSIONS": "907"},
    ) as plugin:
        require(
            await plugin.ends(case.seconds), "it goes on with a host that speaks only version 907"
        )
        await plugin.heard_all()
        require(plugin.exit_code, "it ended with status 0 though the host's version is unknown")
        require(not plugin.handshakes, "it shook hands with a host of an unknown version")
        require("907" in plugin.output, "it does not tell which versions the host speaks")


@case("start.health")
async def health(bench: Bench, case: Case) -> None:
    """The health service says SERVING for `plugin` as soon as hands are shaken."""
    async with bench.fresh() as plugin:
        request = health_pb2.HealthCheckRequest(service="plugin")
        try:
            answer = await call(plugin.health.Check, request, plugin.metadata, case.seconds)
        except RefusedError as error:
            if error.reset:
                raise
            raise RuleBrokenError(f"grpc.health.v1 for 'plugin': {error}") from None
        status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
        require(status == "SERVING", f"grpc.health.v1 says {status} for 'plugin'")


@case("start.authority")
async def authority(bench: Bench, case: Case) -> None:
    """Calls to the socket whose `:authority` is `localhost` are served, as the host's have it."""
    async with bench.fresh() as plugin:
        request = health_pb2.HealthCheckRequest(service="plugin")
        try:
            await call(plugin.health.Check, request, plugin.metadata, case.seconds)
        except RefusedError as error:
            if error.reset:
                raise


@case("start.credential")
async def credential(bench: Bench, case: Case) -> None:
    """Calls without the credential of the launch are refused."""
    plugin = await bench.plugin()
    try:
        await call(plugin.plugins.Describe, plugin_pb.DescribeRequest(), (), case.seconds)
    except RefusedError:
        return
    raise RuleBrokenError("Describe is answered without the value of PENSTOCK_INSTANCE_NONCE")
