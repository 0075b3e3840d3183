"""How the process of a plugin starts, ends and describes itself."""

from __future__ import annotations

from typing import Final

from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.model.errors import InternalError
from penstock.plugin.process.handshake import dial_address
from penstock_kit.conformance.bench import Bench, case
from penstock_kit.conformance.calls import RefusedError, call
from penstock_kit.conformance.cases import Case
from penstock_kit.conformance.process import Plugin, start_plugin_process
from penstock_kit.conformance.results import RuleBrokenError, require

_FILE = "PENSTOCK_HANDSHAKE_FILE"
_TYPES: Final = frozenset(
    {
        *("boolean", "string", "int", "long", "double", "list", "class", "password"),
        *("duration", "size", "file", "map", "enum"),
    }
)


@case("start.handshake")
async def handshake(bench: Bench, case: Case) -> None:
    """Without a handshake file the line is complete on stdout, among other output."""
    async with start_plugin_process(
        bench.plugin_under_test.manifest, bench.plugin_under_test.runtime_dir, without=(_FILE,)
    ) as plugin:
        found = await plugin.handshake(case.seconds)
        try:
            dial_address(found, plugin.launch.folder)
        except InternalError as error:
            raise RuleBrokenError(str(error)) from None


@case("start.once")
async def once(bench: Bench, case: Case) -> None:
    """There is one handshake line, and no second one."""
    async with start_plugin_process(
        bench.plugin_under_test.manifest, bench.plugin_under_test.runtime_dir, without=(_FILE,)
    ) as plugin:
        await plugin.handshake(case.seconds)
        await plugin.connect()
        request = health_pb2.HealthCheckRequest(service="plugin")
        await call(plugin.health.Check, request, plugin.metadata)
        plugin.close_stdin()
        await plugin.wait_for_exit(case.seconds)
        await plugin.wait_for_output()
        count = len(plugin.handshakes) + len(plugin.malformed_lines)
        require(count == 1, f"{count} lines of its output are handshakes")


@case("start.file")
async def file(bench: Bench, case: Case) -> None:
    """The handshake file that the host names is written."""
    async with start_plugin_process(
        bench.plugin_under_test.manifest, bench.plugin_under_test.runtime_dir
    ) as plugin:
        await plugin.handshake(case.seconds)
        require(plugin.launch.handshake_file.is_file(), f"{_FILE} was not written")


@case("start.cookie")
async def cookie(bench: Bench, case: Case) -> None:
    """Without the cookie of a host the process prints how to run it, and exits with 1."""
    async with start_plugin_process(
        bench.plugin_under_test.manifest,
        bench.plugin_under_test.runtime_dir,
        without=("PENSTOCK_PLUGIN_MAGIC_COOKIE",),
    ) as plugin:
        require(
            await plugin.wait_for_exit(case.seconds),
            f"it ran for {case.seconds:g} s without a cookie",
        )
        await plugin.wait_for_output()
        require(plugin.exit_code == 1, f"it ended with status {plugin.exit_code}, not 1")
        require(not plugin.handshakes, "it printed a handshake without a cookie")
        require(plugin.output.strip(), "it ended without printing how to run it")


@case("start.version")
async def version(bench: Bench, case: Case) -> None:
    """A host without a common protocol version is refused, with the versions in the output."""
    async with start_plugin_process(
        bench.plugin_under_test.manifest,
        bench.plugin_under_test.runtime_dir,
        environment={"PLUGIN_PROTOCOL_VERSIONS": "907"},
    ) as plugin:
        require(
            await plugin.wait_for_exit(case.seconds),
            "it keeps running with a host that speaks only version 907",
        )
        await plugin.wait_for_output()
        require(plugin.exit_code, "it ended with status 0 although the host's version is unknown")
        require(not plugin.handshakes, "it printed a handshake for a host of an unknown version")
        require("907" in plugin.output, "its output does not name the versions of the host")


@case("start.health")
async def health(bench: Bench, case: Case) -> None:
    """The health service answers SERVING for `plugin` after the handshake."""
    async with bench.start_plugin() as plugin:
        request = health_pb2.HealthCheckRequest(service="plugin")
        try:
            answer = await call(plugin.health.Check, request, plugin.metadata, case.seconds)
        except RefusedError as error:
            if error.was_reset:
                raise
            raise RuleBrokenError(f"grpc.health.v1 for 'plugin': {error}") from None
        status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
        require(status == "SERVING", f"grpc.health.v1 answers {status} for 'plugin'")


@case("start.authority")
async def authority(bench: Bench, case: Case) -> None:
    """Calls to the socket with the `:authority` of the host, `localhost`, are served."""
    async with bench.start_plugin() as plugin:
        request = health_pb2.HealthCheckRequest(service="plugin")
        try:
            await call(plugin.health.Check, request, plugin.metadata, case.seconds)
        except RefusedError as error:
            if error.was_reset:
                raise


@case("start.credential")
async def credential(bench: Bench, case: Case) -> None:
    """Calls without the credential of the launch are refused."""
    plugin = await bench.shared_plugin()
    try:
        await call(plugin.plugins.Describe, plugin_pb.DescribeRequest(), (), case.seconds)
    except RefusedError:
        return
    raise RuleBrokenError("Describe is answered without the value of PENSTOCK_INSTANCE_NONCE")


@case("end.stdin")
async def stdin(bench: Bench, case: Case) -> None:
    """The end of standard input ends the process: the host is gone."""
    async with bench.start_plugin() as plugin:
        plugin.close_stdin()
        require(
            await plugin.wait_for_exit(case.seconds),
            f"it ran on for {case.seconds:g} s after the end of its standard input",
        )


@case("end.shutdown")
async def shutdown(bench: Bench, case: Case) -> None:
    """Shutdown is answered, and ends the process."""
    async with bench.start_plugin() as plugin:
        await _shut_down(plugin, case.seconds)
        require(
            await plugin.wait_for_exit(case.seconds),
            f"it ran on for {case.seconds:g} s after Shutdown",
        )
        require(plugin.exit_code == 0, f"it ended with status {plugin.exit_code} after Shutdown")


@case("end.sigterm")
async def sigterm(bench: Bench, case: Case) -> None:
    """SIGTERM ends the process."""
    async with bench.start_plugin() as plugin:
        plugin.terminate()
        require(
            await plugin.wait_for_exit(case.seconds),
            f"it ran on for {case.seconds:g} s after SIGTERM",
        )


@case("end.nothing_left")
async def nothing_left(bench: Bench, case: Case) -> None:
    """No child process outlives it."""
    async with bench.start_plugin() as plugin:
        await _shut_down(plugin, case.seconds)
        await plugin.wait_for_exit(case.seconds)
        left = plugin.child_processes()
        require(not left, f"{len(left)} of its child processes still run after its end")


async def _shut_down(plugin: Plugin, seconds: float) -> None:
    request = plugin_pb.ShutdownRequest(grace=Duration(seconds=1))
    try:
        await call(plugin.plugins.Shutdown, request, plugin.metadata, seconds)
    except RefusedError as error:
        require(error.is_disconnect, f"Shutdown failed: {error}")


@case("describe.offline")
async def offline(bench: Bench, case: Case) -> None:
    """A process without any configuration describes itself, at once and always the same."""
    async with bench.start_plugin() as plugin:
        answers = []
        for _ in range(2):
            try:
                answer = await call(
                    plugin.plugins.Describe,
                    plugin_pb.DescribeRequest(),
                    plugin.metadata,
                    case.seconds,
                )
            except RefusedError as error:
                raise RuleBrokenError(
                    f"Describe failed without any configuration: {error}"
                ) from None
            answers.append(answer)
    require(answers[0].connectors, "Describe names no connector")
    require(answers[0] == answers[1], "two calls of Describe differ")


@case("describe.complete")
async def complete(bench: Bench, case: Case) -> None:
    """Names, kinds, keys and abilities are complete, and match the manifest."""
    description = await bench.plugin_under_test.describe()
    names = [spec.name for spec in description.connectors]
    require(len(set(names)) == len(names), f"two connectors have one name: {sorted(names)}")
    for spec in description.connectors:
        _check_spec(spec)
    if bench.plugin_under_test.is_folder:
        in_manifest = {
            (entry.name, entry.kind.value) for entry in bench.plugin_under_test.manifest.connectors
        }
        described = {(spec.name, _kind(spec)) for spec in description.connectors}
        missing = sorted(in_manifest - described)
        require(not missing, f"plugin.toml has {missing}, Describe does not")


@case("describe.stranger")
async def stranger(bench: Bench, case: Case) -> None:
    """An unknown connector is refused with a diagnostic; the process keeps running."""
    plugin = await bench.shared_plugin()
    request = pb.ValidateConfigRequest(target=pb.Target(connector="no-such-connector"))
    try:
        await call(plugin.connectors.ValidateConfig, request, plugin.metadata, case.seconds)
    except RefusedError as error:
        require(not error.is_disconnect, "the process ended over an unknown connector")
        require(error.diagnostic.code, f"the refusal has no diagnostic: {error}")
    else:
        raise RuleBrokenError("it validated an unknown connector")


def _check_spec(spec: plugin_pb.ConnectorSpec) -> None:
    require(spec.name, "a connector has no name")
    require(_kind(spec), f"{spec.name}: its kind is not set")
    if spec.kind == plugin_pb.KIND_SINK:
        require(spec.sink.commit_modes, f"{spec.name}: the sink has no commit mode")
    keys = [key.name for key in spec.config_keys]
    require(len(set(keys)) == len(keys), f"{spec.name}: two keys have one name")
    for key in spec.config_keys:
        place = f"{spec.name}, key {key.name!r}"
        require(key.name, f"{spec.name}: a key has no name")
        require(key.type in _TYPES, f"{place}: unknown type {key.type!r}")
        require(key.documentation, f"{place}: has no documentation")
        require(
            key.type != "password" or key.sensitive, f"{place}: a password that is not sensitive"
        )
        require(
            not (key.required and key.HasField("default_value")),
            f"{place}: is required and has a default",
        )


def _kind(spec: plugin_pb.ConnectorSpec) -> str:
    name = plugin_pb.Kind.Name(spec.kind).removeprefix("KIND_").lower()
    return "" if name == "unspecified" else name
