"""What a connector says about configurations, right and wrong ones."""

from __future__ import annotations

from typing import Any, Final

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.error.v1 import diagnostic_pb2
from penstock.api.record.v1 import record_pb2
from penstock.conformance.bench import Bench
from penstock.conformance.calls import RefusedError, call, collect
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.declared import FILE_NAME
from penstock.conformance.verdict import NotApplicableError, RuleBrokenError, reasons, require
from penstock.model.identity import is_partition_id, partition_id
from penstock.wire.record import value_from_proto

_NONSENSE: Final = "~ no such value ~"
_STRICT: Final = frozenset({"boolean", "int", "long", "double", "duration", "size"})
"""Types of which that is no value, whatever the connector is."""
_UNKNOWN: Final = "conformance.no.such.key"


@case("config.valid")
async def valid(bench: Bench, case: Case) -> None:
    """The declared configuration is in order, also when it is asked twice."""
    del case
    async with bench.world() as world:
        for _ in range(2):
            found = await _validate(bench, world.target())
            errors = [one for one in found if _is_error(one)]
            require(not errors, f"`config` of {FILE_NAME} is refused: {reasons(errors)}")


@case("config.required")
async def required(bench: Bench, case: Case) -> None:
    """Each required key is missed, by its name."""
    del case
    keys = [key.name for key in bench.spec.config_keys if key.required]
    if not keys:
        raise NotApplicableError("no key is required")
    async with bench.world() as world:
        for key in keys:
            await _refused(bench, world.target(**{key: None}), key, f"{key} is missing")


@case("config.unknown_key")
async def unknown_key(bench: Bench, case: Case) -> None:
    """A key that there is not is refused, by its name: a typing error is never ignored."""
    del case
    async with bench.world() as world:
        target = world.target(**{_UNKNOWN: "1"})
        await _refused(bench, target, _UNKNOWN, "an unknown key was given")


@case("config.wrong_type")
async def wrong_type(bench: Bench, case: Case) -> None:
    """A value that is none of its key's type is refused, by the key's name."""
    del case
    keys = [key.name for key in bench.spec.config_keys if key.type in _STRICT or key.choices]
    if not keys:
        raise NotApplicableError("every key takes any text")
    async with bench.world() as world:
        for key in keys:
            await _refused(bench, world.target(**{key: _NONSENSE}), key, f"{key}={_NONSENSE!r}")


@case("config.wrong_value")
async def wrong_value(bench: Bench, case: Case) -> None:
    """Values out of range that the author declares are refused."""
    del case
    if not bench.declared.wrong:
        raise NotApplicableError("`wrong` declares no value")
    async with bench.world() as world:
        for key, value in bench.declared.wrong.items():
            target = world.target(**{key: world.fill(value)})
            await _refused(bench, target, key, f"{key}={value!r}")


@case("config.check")
async def check(bench: Bench, case: Case) -> None:
    """CheckConnection names its steps, and all of them pass with the declared configuration."""
    plugin = await bench.plugin()
    async with bench.world() as world:
        request = pb.CheckConnectionRequest(target=world.target())
        steps = await _steps(plugin, request, case.seconds)
    require(steps, "CheckConnection named no step")
    require(all(step.step for step in steps), "a step has no name")
    failed = [f"{step.step}: {reasons(step.diagnostics)}" for step in steps if not step.ok]
    require(not failed, f"steps failed with `config` of {FILE_NAME}: {' · '.join(failed[:2])}")


@case("config.check_fails")
async def check_fails(bench: Bench, case: Case) -> None:
    """With an outside that cannot be reached a step fails and says why, in time."""
    if not bench.declared.broken:
        raise NotApplicableError("`broken` declares no configuration")
    plugin = await bench.plugin()
    async with bench.world() as world:
        target = world.target(**world.filled(bench.declared.broken))
        steps = await _steps(plugin, pb.CheckConnectionRequest(target=target), case.seconds)
    failed = [step for step in steps if not step.ok]
    require(failed, "every step passed, though the outside cannot be reached")
    require(failed[0].diagnostics, f"step {failed[0].step} failed without a diagnostic")


@case("plan.refused")
async def refused(bench: Bench, case: Case) -> None:
    """A plan of a configuration that is not in order is refused with a diagnostic."""
    plugin = await bench.plugin()
    request = pb.PlanRequest(
        target=pb.Target(connector=bench.name, config={_UNKNOWN: "1"}), max_tasks=1
    )
    try:
        await call(plugin.connectors.Plan, request, plugin.metadata, case.seconds)
    except RefusedError as error:
        wanted = diagnostic_pb2.ERROR_CLASS_CONFIG
        require(error.diagnostic.code, f"the refusal has no diagnostic: {error}")
        require(error.diagnostic.error_class == wanted, f"its class is not CONFIG: {error}")
        require(error.diagnostic.message, f"{error.diagnostic.code} has no message")
        return
    raise RuleBrokenError("Plan took a configuration that is not in order")


@case("plan.same")
async def same(bench: Bench, case: Case) -> None:
    """Plan is pure: the same partitions for the same configuration, with canonical ids."""
    plugin = await bench.plugin()
    async with bench.world() as world:
        request = pb.PlanRequest(target=world.target(), max_tasks=1)
        answers = [
            await call(plugin.connectors.Plan, request, plugin.metadata, case.seconds)
            for _ in range(2)
        ]
    ids = [[partition.partition_id for partition in _partitions(one)] for one in answers]
    require(ids[0], "Plan gave no partition")
    require(ids[0] == ids[1], "two Plans of one configuration differ")
    require(len(set(ids[0])) == len(ids[0]), "a partition comes twice in the plan")
    require(len(answers[0].tasks) <= 1, f"{len(answers[0].tasks)} tasks, one was asked for at most")
    for partition in _partitions(answers[0]):
        _check_id(partition)


def _partitions(answer: pb.PlanResponse) -> list[record_pb2.Partition]:
    return [*answer.partitions, *(p for task in answer.tasks for p in task.partitions)]


def _check_id(partition: record_pb2.Partition) -> None:
    id_ = partition.partition_id
    require(is_partition_id(id_), f"{id_[:100]!r} is not the canonical JSON of a partition's key")
    key = {name: value_from_proto(value) for name, value in partition.key.items()}
    require(not key or partition_id(key) == id_, f"{id_[:100]!r} is not the id of its key")


async def _steps(plugin: Any, request: pb.CheckConnectionRequest, seconds: float) -> list[Any]:
    try:
        return await collect(plugin.connectors.CheckConnection, request, plugin.metadata, seconds)
    except RefusedError as error:
        raise RuleBrokenError(f"CheckConnection failed instead of naming a step: {error}") from None


async def _validate(bench: Bench, target: pb.Target) -> list[diagnostic_pb2.Diagnostic]:
    """Return all findings; those of a value say which key they are about."""
    plugin = await bench.plugin()
    request = pb.ValidateConfigRequest(target=target)
    answer = await call(plugin.connectors.ValidateConfig, request, plugin.metadata)
    found = list(answer.diagnostics)
    for value in answer.values:
        for diagnostic in value.diagnostics:
            diagnostic.config_path = diagnostic.config_path or value.name
            found.append(diagnostic)
    return found


async def _refused(bench: Bench, target: pb.Target, key: str, what: str) -> None:
    found = [d for d in await _validate(bench, target) if _is_error(d)]
    require(found, f"{what}, and nothing was found")
    about = [d for d in found if d.config_path == key or key in d.message]
    require(about, f"{what}; what was found names other keys: {found[0].code} {found[0].message}")
    require(about[0].code, f"{what}; the finding has no code")


def _is_error(diagnostic: diagnostic_pb2.Diagnostic) -> bool:
    return diagnostic.severity in {
        diagnostic_pb2.SEVERITY_ERROR,
        diagnostic_pb2.SEVERITY_UNSPECIFIED,
    }
