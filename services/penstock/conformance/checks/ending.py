"""How a process ends: told by its host, told by an operator, left by its host; and what is left."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.conformance.bench import Bench
from penstock.conformance.calls import RefusedError, call
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.process import Plugin
from penstock.conformance.verdict import require


@case("end.stdin")
async def stdin(bench: Bench, case: Case) -> None:
    """The end of standard input means that the host is gone."""
    async with bench.fresh() as plugin:
        plugin.leave()
        require(
            await plugin.ends(case.seconds),
            f"it ran on for {case.seconds:g} s after the end of its standard input",
        )


@case("end.shutdown")
async def shutdown(bench: Bench, case: Case) -> None:
    """Shutdown is answered, and ends the process."""
    async with bench.fresh() as plugin:
        await _shut_down(plugin, case.seconds)
        require(await plugin.ends(case.seconds), f"it ran on for {case.seconds:g} s after Shutdown")
        require(plugin.exit_code == 0, f"it ended with status {plugin.exit_code} after Shutdown")


@case("end.sigterm")
async def sigterm(bench: Bench, case: Case) -> None:
    """SIGTERM ends it in order."""
    async with bench.fresh() as plugin:
        plugin.terminate()
        require(await plugin.ends(case.seconds), f"it ran on for {case.seconds:g} s after SIGTERM")


@case("end.nothing_left")
async def nothing_left(bench: Bench, case: Case) -> None:
    """No process of its own outlives it."""
    async with bench.fresh() as plugin:
        await _shut_down(plugin, case.seconds)
        await plugin.ends(case.seconds)
        left = plugin.relatives()
        require(not left, f"{len(left)} processes that it started live on after its end")


async def _shut_down(plugin: Plugin, seconds: float) -> None:
    request = plugin_pb.ShutdownRequest(grace=Duration(seconds=1))
    try:
        await call(plugin.plugins.Shutdown, request, plugin.metadata, seconds)
    except RefusedError as error:
        require(error.lost, f"Shutdown failed: {error}")
