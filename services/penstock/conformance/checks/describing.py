"""What a plugin says about itself."""

from __future__ import annotations

from typing import Final

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.conformance.bench import Bench
from penstock.conformance.calls import RefusedError, call
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.verdict import RuleBrokenError, require

_TYPES: Final = frozenset(
    {
        *("boolean", "string", "int", "long", "double", "list", "class", "password"),
        *("duration", "size", "file", "map", "enum"),
    }
)


@case("describe.offline")
async def offline(bench: Bench, case: Case) -> None:
    """A process that was told nothing describes itself, at once and always the same."""
    async with bench.fresh() as plugin:
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
    require(answers[0].connectors, "it names no connector")
    require(answers[0] == answers[1], "two Describe of one process differ")


@case("describe.complete")
async def complete(bench: Bench, case: Case) -> None:
    """Names, kinds, keys and abilities are all there, and are what the manifest promises."""
    del case
    description = await bench.grounds.describe()
    names = [spec.name for spec in description.connectors]
    require(len(set(names)) == len(names), f"a name comes twice: {sorted(names)}")
    for spec in description.connectors:
        _spec(spec)
    if bench.grounds.is_folder:
        promised = {(entry.name, entry.kind.value) for entry in bench.grounds.manifest.connectors}
        served = {(spec.name, _kind(spec)) for spec in description.connectors}
        missing = sorted(promised - served)
        require(not missing, f"plugin.toml promises {missing}, Describe does not have it")


@case("describe.stranger")
async def stranger(bench: Bench, case: Case) -> None:
    """A connector that it does not have is refused with a diagnostic; the process lives on."""
    plugin = await bench.plugin()
    request = pb.ValidateConfigRequest(target=pb.Target(connector="no-such-connector"))
    try:
        await call(plugin.connectors.ValidateConfig, request, plugin.metadata, case.seconds)
    except RefusedError as error:
        require(not error.lost, "the process ended over a connector that it does not have")
        require(error.diagnostic.code, f"the refusal has no diagnostic: {error}")
    else:
        raise RuleBrokenError("it validated a connector that it does not have")


def _spec(spec: plugin_pb.ConnectorSpec) -> None:
    require(spec.name, "a connector has no name")
    require(_kind(spec), f"{spec.name}: its kind is not set")
    if spec.kind == plugin_pb.KIND_SINK:
        require(spec.sink.commit_modes, f"{spec.name}: a sink that names no commit mode")
    keys = [key.name for key in spec.config_keys]
    require(len(set(keys)) == len(keys), f"{spec.name}: a key comes twice")
    for key in spec.config_keys:
        where = f"{spec.name}, key {key.name!r}"
        require(key.name, f"{spec.name}: a key has no name")
        require(key.type in _TYPES, f"{where}: there is no type {key.type!r}")
        require(key.documentation, f"{where}: has no documentation")
        require(
            key.type != "password" or key.sensitive, f"{where}: a password that is not sensitive"
        )
        require(
            not (key.required and key.HasField("default_value")),
            f"{where}: is required and has a default",
        )


def _kind(spec: plugin_pb.ConnectorSpec) -> str:
    name = plugin_pb.Kind.Name(spec.kind).removeprefix("KIND_").lower()
    return "" if name == "unspecified" else name
