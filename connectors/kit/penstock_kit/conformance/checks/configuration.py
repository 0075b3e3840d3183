"""How a connector validates configurations, checks its connection, lists datasets, plans, and keeps
secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import grpc

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.error.v1 import diagnostic_pb2
from penstock.api.record.v1 import record_pb2
from penstock.model.columns import is_reserved
from penstock_kit.conformance.bench import SMALL_BATCHES, Bench, case
from penstock_kit.conformance.calls import RefusedError, call, collect, open_stream
from penstock_kit.conformance.cases import Case
from penstock_kit.conformance.declaration import DECLARATION_FILE
from penstock_kit.conformance.process import Plugin
from penstock_kit.conformance.results import (
    NotApplicableError,
    RuleBrokenError,
    format_diagnostics,
    require,
)
from penstock_kit.conformance.source_task import open_source
from penstock_values.identity import is_partition_id, partition_id
from penstock_values.messages import key_from_proto, range_from_proto
from penstock_values.partition_ranges import find_overlap
from penstock_values.schemas import decode_schema

_NONSENSE: Final = "~ no such value ~"
_STRICT_TYPES: Final = frozenset({"boolean", "int", "long", "double", "duration", "size"})
"""Types for which that is not a value, for any connector."""
_UNKNOWN: Final = "conformance.no.such.key"
_MAX_TRIED: Final = 20
"""Recommended values of a key that are tried."""
_CANARY: Final = "canary-7f3a9c51e2"


@case("config.valid")
async def valid(bench: Bench, case: Case) -> None:
    """The declared configuration is valid, on a second call, too."""
    async with bench.sandbox() as sandbox:
        for _ in range(2):
            found = await _validate(bench, sandbox.target())
            errors = [one for one in found if _is_error(one)]
            require(
                not errors,
                f"`config` of {DECLARATION_FILE} is refused: {format_diagnostics(errors)}",
            )


@case("config.required")
async def required(bench: Bench, case: Case) -> None:
    """A missing required key is an error that names the key."""
    keys = [key.name for key in bench.spec.config_keys if key.required]
    if not keys:
        raise NotApplicableError("no key is required")
    async with bench.sandbox() as sandbox:
        for key in keys:
            await _check_refused(bench, sandbox.target(**{key: None}), key, f"{key} is missing")


@case("config.unknown_key")
async def unknown_key(bench: Bench, case: Case) -> None:
    """An unknown key is an error that names the key: a typing error is never ignored."""
    async with bench.sandbox() as sandbox:
        target = sandbox.target(**{_UNKNOWN: "1"})
        await _check_refused(bench, target, _UNKNOWN, "an unknown key was given")


@case("config.wrong_type")
async def wrong_type(bench: Bench, case: Case) -> None:
    """A value of a wrong type is an error that names its key."""
    keys = [key.name for key in bench.spec.config_keys if key.type in _STRICT_TYPES or key.choices]
    if not keys:
        raise NotApplicableError("every key accepts any text")
    async with bench.sandbox() as sandbox:
        for key in keys:
            await _check_refused(
                bench, sandbox.target(**{key: _NONSENSE}), key, f"{key}={_NONSENSE!r}"
            )


@case("config.wrong_value")
async def wrong_value(bench: Bench, case: Case) -> None:
    """The values out of range that the author declares are errors."""
    if not bench.declaration.wrong:
        raise NotApplicableError("`wrong` is not declared")
    async with bench.sandbox() as sandbox:
        for key, value in bench.declaration.wrong.items():
            target = sandbox.target(**{key: sandbox.expand(value)})
            await _check_refused(bench, target, key, f"{key}={value!r}")


@case("config.form")
async def form(bench: Bench, case: Case) -> None:
    """Each key has its place in the form of any configuration, the empty one, too. A recommended
    value is valid, and a hidden key is not reported as missing.
    """
    plugin = await bench.shared_plugin()
    async with bench.sandbox() as sandbox:
        for target in (pb.Target(connector=bench.name), sandbox.target()):
            request = pb.ValidateConfigRequest(target=target)
            answer = await call(plugin.connectors.ValidateConfig, request, plugin.metadata)
            _check_form(bench, answer.values)
        for value in answer.values:
            for text in value.recommended_values[:_MAX_TRIED]:
                await _check_recommended(bench, sandbox.target(**{value.name: text}), value.name)


def _check_form(bench: Bench, values: Sequence[pb.ConfigValue]) -> None:
    names = [value.name for value in values]
    left_out = [key.name for key in bench.spec.config_keys if key.name not in names]
    require(not left_out, f"ValidateConfig has no value of {', '.join(left_out[:5])}")
    require(len(set(names)) == len(names), "ValidateConfig has a key twice")
    for value in values:
        errors = [one.code for one in value.diagnostics if _is_error(one)]
        missed = not value.visible and "config.missing" in errors
        require(not missed, f"{value.name} is hidden, and reported as missing")


async def _check_recommended(bench: Bench, target: pb.Target, key: str) -> None:
    found = [d for d in await _validate(bench, target) if _is_error(d) and d.config_path == key]
    require(
        not found, f"{key} has a recommended value that is refused: {format_diagnostics(found)}"
    )


@case("config.check")
async def check(bench: Bench, case: Case) -> None:
    """CheckConnection names its steps, and all pass with the declared configuration."""
    plugin = await bench.shared_plugin()
    async with bench.sandbox() as sandbox:
        request = pb.CheckConnectionRequest(target=sandbox.target())
        steps = await _steps(plugin, request, case.seconds)
    require(steps, "CheckConnection has no step")
    require(all(step.step for step in steps), "a step has no name")
    failed = [
        f"{step.step}: {format_diagnostics(step.diagnostics)}" for step in steps if not step.ok
    ]
    require(
        not failed, f"steps failed with `config` of {DECLARATION_FILE}: {' · '.join(failed[:2])}"
    )


@case("config.check_fails")
async def check_fails(bench: Bench, case: Case) -> None:
    """With an unreachable external system a step fails in time, with a diagnostic."""
    if not bench.declaration.broken:
        raise NotApplicableError("`broken` is not declared")
    plugin = await bench.shared_plugin()
    async with bench.sandbox() as sandbox:
        target = sandbox.target(**sandbox.expand_all(bench.declaration.broken))
        steps = await _steps(plugin, pb.CheckConnectionRequest(target=target), case.seconds)
    failed = [step for step in steps if not step.ok]
    require(failed, "every step passed, although the external system cannot be reached")
    require(failed[0].diagnostics, f"step {failed[0].step} failed without a diagnostic")


@case("datasets.listed")
async def listed(bench: Bench, case: Case) -> None:
    """Datasets have names of their own, and the columns that their rows have."""
    plugin = await bench.shared_plugin()
    async with bench.sandbox() as sandbox:
        request = pb.ListDatasetsRequest(target=sandbox.target())
        try:
            answers = await collect(
                plugin.connectors.ListDatasets, request, plugin.metadata, case.seconds
            )
        except RefusedError as error:
            if error.status is grpc.StatusCode.UNIMPLEMENTED:
                raise NotApplicableError("it cannot list datasets") from None
            raise
        datasets = [answer.dataset for answer in answers]
        _check_datasets(datasets)
        # in this sandbox: a name of it may be a part of the names of datasets
        async with open_source(plugin, sandbox, bench.read_options(**SMALL_BATCHES)) as task:
            schemas = (await bench.read_all(task)).of_kind("schema")
    _compare_columns(datasets, schemas)


def _check_datasets(datasets: Sequence[pb.Dataset]) -> None:
    names = [dataset.name for dataset in datasets]
    require(names, "ListDatasets has no dataset")
    require(all(names), "a dataset has no name")
    require(len(set(names)) == len(names), f"a dataset was listed twice: {', '.join(names[:10])}")
    problems = [one.problem for one in datasets if one.selected and one.HasField("problem")]
    require(not problems, f"columns are not known: {format_diagnostics(problems)}")


def _compare_columns(datasets: Sequence[pb.Dataset], schemas: Sequence[record_pb2.Schema]) -> None:
    seen: set[str] = set()
    for schema in schemas:
        if schema.dataset in seen:
            continue  # later ones may have grown
        seen.add(schema.dataset)
        said = [columns_of(d) for d in datasets if d.selected and d.dataset == schema.dataset]
        found = columns_of(schema)
        require(said, f"rows of {schema.dataset!r} came, and it was not listed as selected")
        require({} in said or found in said, f"{schema.dataset!r} has {found}, listed was {said}")


def columns_of(described: pb.Dataset | record_pb2.Schema) -> dict[str, str]:
    """Return the types of the columns that are no reserved ones."""
    if not described.arrow_schema:
        return {}
    schema = decode_schema(described.arrow_schema)
    return {field.name: str(field.type) for field in schema if not is_reserved(field.name)}


@case("plan.refused")
async def refused(bench: Bench, case: Case) -> None:
    """Plan refuses an invalid configuration with a diagnostic."""
    plugin = await bench.shared_plugin()
    request = pb.PlanRequest(
        target=pb.Target(connector=bench.name, config={_UNKNOWN: "1"}), max_tasks=1
    )
    try:
        await call(plugin.connectors.Plan, request, plugin.metadata, case.seconds)
    except RefusedError as error:
        config_class = diagnostic_pb2.ERROR_CLASS_CONFIG
        require(error.diagnostic.code, f"the refusal has no diagnostic: {error}")
        require(error.diagnostic.error_class == config_class, f"its class is not CONFIG: {error}")
        require(error.diagnostic.message, f"{error.diagnostic.code} has no message")
        return
    raise RuleBrokenError("Plan accepted an invalid configuration")


@case("plan.same")
async def same(bench: Bench, case: Case) -> None:
    """Plan returns the same partitions for the same configuration, with canonical ids."""
    plugin = await bench.shared_plugin()
    async with bench.sandbox() as sandbox:
        request = pb.PlanRequest(target=sandbox.target(), max_tasks=1)
        answers = [
            await call(plugin.connectors.Plan, request, plugin.metadata, case.seconds)
            for _ in range(2)
        ]
    ids = [[partition.partition_id for partition in _partitions(one)] for one in answers]
    require(ids[0], "the plan has no partition")
    require(ids[0] == ids[1], "two plans of one configuration differ")
    require(len(set(ids[0])) == len(ids[0]), "the plan has a partition twice")
    require(len(answers[0].tasks) <= 1, f"{len(answers[0].tasks)} tasks, the request allows one")
    for partition in _partitions(answers[0]):
        _check_id(partition)
    given = [p.range for p in _partitions(answers[0]) if p.HasField("range")]
    overlap = find_overlap(list(map(range_from_proto, given)))
    require(not overlap, f"two ranges overlap: {overlap}")


def _partitions(answer: pb.PlanResponse) -> list[record_pb2.Partition]:
    return [*answer.partitions, *(p for task in answer.tasks for p in task.partitions)]


def _check_id(partition: record_pb2.Partition) -> None:
    id_ = partition.partition_id
    require(is_partition_id(id_), f"{id_[:100]!r} is not the canonical JSON of a partition's key")
    key = key_from_proto(partition)
    require(not key or partition_id(key) == id_, f"{id_[:100]!r} is not the id of its key")


async def _steps(plugin: Any, request: pb.CheckConnectionRequest, seconds: float) -> list[Any]:
    try:
        return await collect(plugin.connectors.CheckConnection, request, plugin.metadata, seconds)
    except RefusedError as error:
        raise RuleBrokenError(f"CheckConnection failed instead of naming a step: {error}") from None


async def _validate(bench: Bench, target: pb.Target) -> list[diagnostic_pb2.Diagnostic]:
    """Return all diagnostics; those of a value have its key as their path."""
    plugin = await bench.shared_plugin()
    request = pb.ValidateConfigRequest(target=target)
    answer = await call(plugin.connectors.ValidateConfig, request, plugin.metadata)
    found = list(answer.diagnostics)
    for value in answer.values:
        for diagnostic in value.diagnostics:
            diagnostic.config_path = diagnostic.config_path or value.name
            found.append(diagnostic)
    return found


async def _check_refused(bench: Bench, target: pb.Target, key: str, what: str) -> None:
    found = [d for d in await _validate(bench, target) if _is_error(d)]
    require(found, f"{what}, and there is no error")
    about = [d for d in found if d.config_path == key or key in d.message]
    require(about, f"{what}; the errors name other keys: {found[0].code} {found[0].message}")
    require(about[0].code, f"{what}; the error has no code")


def _is_error(diagnostic: diagnostic_pb2.Diagnostic) -> bool:
    return diagnostic.severity in {
        diagnostic_pb2.SEVERITY_ERROR,
        diagnostic_pb2.SEVERITY_UNSPECIFIED,
    }


@case("secrets.absent")
async def absent(bench: Bench, case: Case) -> None:
    """The value of a sensitive key is in no output, description, answer or error."""
    keys = [key.name for key in bench.spec.config_keys if key.sensitive]
    if not keys:
        raise NotApplicableError("no key is sensitive")
    async with bench.new_sandbox() as sandbox, bench.start_plugin() as plugin:
        target = sandbox.target()
        for key in keys:
            target.config.pop(key, None)
            target.secrets[key] = f"{_CANARY} with words and 'quotes'"
        texts = await _collect_texts(bench, plugin, target, case.seconds)
        plugin.close_stdin()
        await plugin.wait_for_exit(case.seconds)
        await plugin.wait_for_output()
        texts["its output"] = plugin.output
    places = [place for place, text in texts.items() if _CANARY in text]
    require(not places, f"the value of {' or '.join(keys)} is in {', '.join(places)}")


async def _collect_texts(
    bench: Bench, plugin: Plugin, target: pb.Target, seconds: float
) -> dict[str, str]:
    """Return the answers of all calls about a target, by the name of the call."""
    metadata = plugin.metadata
    connectors = plugin.connectors
    validate = pb.ValidateConfigRequest(target=target)
    plan = pb.PlanRequest(target=target, max_tasks=1)
    check = pb.CheckConnectionRequest(target=target)
    describe = plugin_pb.DescribeRequest()
    datasets = pb.ListDatasetsRequest(target=target)
    texts = {
        "ValidateConfig": await _answer_text(
            connectors.ValidateConfig, validate, metadata, seconds
        ),
        "CheckConnection": await _answer_text(
            connectors.CheckConnection, check, metadata, seconds, streamed=True
        ),
        "Plan": await _answer_text(connectors.Plan, plan, metadata, seconds),
        "ListDatasets": await _answer_text(
            connectors.ListDatasets, datasets, metadata, seconds, streamed=True
        ),
        "Describe": await _answer_text(plugin.plugins.Describe, describe, metadata, seconds),
    }
    texts["Open"] = await _open_text(bench, plugin, target, seconds)
    return texts


async def _answer_text(
    method: Any, request: Any, metadata: Any, seconds: float, *, streamed: bool = False
) -> str:
    call_method: Any = collect if streamed else call
    try:
        return str(await call_method(method, request, metadata, seconds))
    except RefusedError as error:
        return error.full_text


async def _open_text(bench: Bench, plugin: Plugin, target: pb.Target, seconds: float) -> str:
    task = pb.TaskPlan(task_id=bench.task_id())
    if bench.spec.kind == plugin_pb.KIND_SINK:
        method: Any = plugin.sinks.Write
        frame: Any = sink_pb.WriteRequest(open=sink_pb.WriteOpen(target=target, task=task, epoch=1))
    else:
        method = plugin.sources.Read
        frame = source_pb.ReadRequest(open=source_pb.ReadOpen(target=target, task=task, epoch=1))
    try:
        async with open_stream(method, plugin.metadata) as opened:
            await opened.send(frame)
            return str(await opened.receive(seconds))
    except RefusedError as error:
        return error.full_text
    except TimeoutError:
        return ""
