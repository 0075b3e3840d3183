"""PluginService and ConnectorService: what a plugin has, and everything about a connector that is
not rows.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import metadata
from typing import Any, TypeVar

import grpc.aio

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import connector_service_pb2_grpc as pb_grpc
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import plugin_service_pb2_grpc as plugin_grpc
from penstock.api.error.v1 import diagnostic_pb2
from penstock_connector._alterable import Alterable
from penstock_connector._calls import fail, refuse_unimplemented
from penstock_connector._config import (
    WithUnusedKeys,
    compatibility_keys,
    key_hints,
    keys_of,
    read_config,
)
from penstock_connector._connector import ApplyAction, Connector
from penstock_connector._connectors import Connectors, configure
from penstock_connector._errors import ConnectorError, as_connector_error
from penstock_connector._monitoring import Monitoring
from penstock_connector._source import Dataset, Source
from penstock_connector._values import partition_from_proto, partition_to_proto
from penstock_connector.reach import FOLDERS, HOSTS
from penstock_values.memory_files import can_read, own_memory_file

T = TypeVar("T")


def sdk_name() -> str:
    """Return the name and version of this SDK."""
    try:
        return f"penstock-sdk-python/{metadata.version('penstock')}"
    except metadata.PackageNotFoundError:
        return "penstock-sdk-python"


class PluginService(plugin_grpc.PluginServiceServicer):
    """The process: what is in it, and its end."""

    def __init__(
        self,
        connectors: Connectors,
        *,
        name: str,
        version: str,
        shutdown: Callable[[float], Awaitable[None]],
    ) -> None:
        self._description = plugin_pb.DescribeResponse(
            name=name, version=version, sdk=sdk_name(), connectors=connectors.describe()
        )
        self._shutdown = shutdown

    async def Describe(  # noqa: N802 - the protocol's name
        self, request: plugin_pb.DescribeRequest, _context: Any
    ) -> plugin_pb.DescribeResponse:
        """Tell what the plugin serves; needs no configuration."""
        if not (request.HasField("memory_file") and can_read(request.memory_file)):
            return self._description
        answer = plugin_pb.DescribeResponse(memory_file=own_memory_file())
        answer.MergeFrom(self._description)
        return answer

    async def Shutdown(  # noqa: N802 - the protocol's name
        self, request: plugin_pb.ShutdownRequest, _context: Any
    ) -> plugin_pb.ShutdownResponse:
        """Drain all tasks; the process ends after the answer."""
        await self._shutdown(request.grace.ToTimedelta().total_seconds())
        return plugin_pb.ShutdownResponse()


class ConnectorService(pb_grpc.ConnectorServiceServicer):
    """Validation, planning, checks. What authors wrote runs in threads."""

    def __init__(self, connectors: Connectors) -> None:
        self._connectors = connectors
        self.monitoring = Monitoring(connectors)

    async def ValidateConfig(  # noqa: N802 - the protocol's name
        self, request: pb.ValidateConfigRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ValidateConfigResponse:
        """Check the values one by one and together."""
        return await _guard(context, "validate", lambda: self._validate(request.target))

    async def CheckConnection(  # noqa: N802 - the protocol's name
        self, request: pb.CheckConnectionRequest, _context: Any
    ) -> AsyncIterator[pb.CheckConnectionResponse]:
        """Check the configuration, then the outside."""
        for step in (self._check_config, self._check_outside):
            name = step.__name__.removeprefix("_check_")
            began = time.monotonic()
            error = await asyncio.to_thread(_error_of, step, request.target)
            result = pb.CheckConnectionResponse(step=name, ok=error is None)
            result.took.FromTimedelta(timedelta(seconds=time.monotonic() - began))
            if error is not None:
                result.diagnostics.append(error.diagnostic())
            yield result
            if error is not None:
                return

    async def ListDatasets(  # noqa: N802 - the protocol's name
        self, request: pb.ListDatasetsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.ListDatasetsResponse]:
        """Stream the datasets as the author's iterator finds them, in one thread."""
        kind = await _guard(context, "list_datasets", lambda: self._find(request.target))
        if not (issubclass(kind, Source) and kind.lists_datasets()):
            await refuse_unimplemented(context, f"{kind.name} cannot list datasets")
        listed = _datasets(kind, request.target)
        # what an author opens, such as a session with SQLite, may belong to its thread
        thread = ThreadPoolExecutor(1, "list_datasets")
        inside, loop = contextvars.copy_context(), asyncio.get_running_loop()

        def look_up() -> pb.ListDatasetsResponse | None:
            return inside.run(next, listed, None)

        try:
            while (found := await loop.run_in_executor(thread, look_up)) is not None:
                yield found
        except Exception as error:  # noqa: BLE001 - it is the answer
            await fail(context, as_connector_error(error, "list_datasets"))
        finally:
            thread.submit(listed.close)  # behind a look-up that still runs
            thread.shutdown(wait=False)

    async def Plan(  # noqa: N802 - the protocol's name
        self, request: pb.PlanRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.PlanResponse:
        """Return the partitions; the host spreads them over tasks."""
        return await _guard(context, "plan", lambda: self._plan(request))

    async def Apply(  # noqa: N802 - the protocol's name
        self, request: pb.ApplyRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ApplyResponse:
        """Set up, change or remove what a connector owns outside."""
        return await _guard(context, "apply", lambda: self._apply(request))

    async def AlterOffsets(  # noqa: N802 - the protocol's name
        self,
        request: pb.AlterOffsetsRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> pb.AlterOffsetsResponse:
        """Say what becomes of offsets that a person wants to set."""
        return await _guard(context, "alter_offsets", lambda: self._alter(request))

    async def Signal(  # noqa: N802 - the protocol's name
        self, request: pb.SignalRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.SignalResponse:
        """Write a signal to where tasks read signals."""
        kind = await _guard(context, "signal", lambda: self._find(request.target))
        if not (issubclass(kind, Source) and kind.takes_signals()):
            await refuse_unimplemented(context, f"{kind.name} takes no signals")
        return await _guard(context, "signal", lambda: _send_signal(kind, request))

    async def Monitor(  # type: ignore[override] # noqa: N802 - it writes its answers itself
        self, _requests: Any, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        """Watch for the connector's life."""
        await self.monitoring.monitor(context)

    def _find(self, target: pb.Target) -> type[Connector[Any]]:
        return self._connectors.find(target.connector, Connector)

    def _validate(self, target: pb.Target) -> pb.ValidateConfigResponse:
        kind = self._connectors.find(target.connector, Connector)
        given = {**target.config, **target.secrets}
        names = {name: v for name, v in given.items() if name not in {FOLDERS, HOSTS}}
        config: Any
        errors: Sequence[ConnectorError]
        config, errors = read_config(kind.config_type, given)
        unused: Mapping[str, str] = {}
        if config is not None:
            errors = kind.validate(config)
            unused = config.unused_keys() if isinstance(config, WithUnusedKeys) else {}
        response = pb.ValidateConfigResponse()
        values = {name: pb.ConfigValue(name=name, visible=True) for name in names}
        for key in keys_of(kind.config_type).values():
            value = values.setdefault(key.name, pb.ConfigValue(name=key.name, visible=True))
            if key.meta.no_effect and key.name in given:
                value.diagnostics.append(_no_effect(key.name, key.meta.no_effect))
            if not key.meta.sensitive:
                shown = given.get(key.name, key.text(key.default))
                if key.name in given or key.default is not None:
                    value.value = shown
        _add_hints(values, kind.config_type, {n: v for n, v in names.items() if n in target.config})
        for name, theirs in compatibility_keys(kind.config_type, names).items():
            if theirs.why and not theirs.refused:
                values[name].diagnostics.append(_no_effect(name, theirs.why))
        for name, why in unused.items():
            values[name].diagnostics.append(_no_effect(name, why))
        for error in errors:
            place = values.get(error.config_path)
            (place or response).diagnostics.append(error.diagnostic())
        response.values.extend(values.values())
        return response

    def _plan(self, request: pb.PlanRequest) -> pb.PlanResponse:
        kind = self._connectors.find(request.target.connector, Connector)
        config = configure(kind, request.target)
        if not issubclass(kind, Source):
            return pb.PlanResponse()
        known = [partition_from_proto(partition) for partition in request.known_partitions]
        planned = [
            partition_to_proto(partition)
            for partition in kind.plan(config, request.max_tasks or 1, known)
        ]
        return pb.PlanResponse(
            partitions=planned,
            monitor=kind.monitored(config, request.max_tasks or 1),
        )

    def _apply(self, request: pb.ApplyRequest) -> pb.ApplyResponse:
        kind = self._connectors.find(request.target.connector, Connector)
        config = configure(kind, request.target)
        action = ApplyAction(request.action)
        response = pb.ApplyResponse()
        last = None
        if request.HasField("last_applied"):
            try:
                last = configure(kind, request.last_applied)
            except ConnectorError as error:
                response.diagnostics.append(_unreadable(error))
        done = kind.apply_action(config, action, last=last)
        response.actions.extend(done)
        return response

    def _alter(self, request: pb.AlterOffsetsRequest) -> pb.AlterOffsetsResponse:
        kind: type[Alterable[Any]] = self._connectors.find(request.target.connector, Alterable)
        config = configure(kind, request.target)
        wanted = [partition_from_proto(partition) for partition in request.partitions]
        altered = kind.alter_offsets(config, wanted, dry_run=request.dry_run)
        return pb.AlterOffsetsResponse(partitions=map(partition_to_proto, altered))

    def _check_config(self, target: pb.Target) -> None:
        configure(self._connectors.find(target.connector, Connector), target)

    def _check_outside(self, target: pb.Target) -> None:
        kind = self._connectors.find(target.connector, Connector)
        kind.check(configure(kind, target))


def _send_signal(kind: type[Source[Any]], request: pb.SignalRequest) -> pb.SignalResponse:
    config = configure(kind, request.target)
    data = json.loads(request.data) if request.data else {}
    signal = {"id": request.id, "type": request.type, "data": data}
    return pb.SignalResponse(written_to=kind.send_signal(config, signal))


def _add_hints(
    values: Mapping[str, pb.ConfigValue], config_type: type, given: Mapping[str, str]
) -> None:
    for name, hint in key_hints(config_type, given).items():
        values[name].visible = hint.visible
        values[name].recommended_values.extend(hint.recommended_values)


def _datasets(
    kind: type[Source[Any]], target: pb.Target
) -> Generator[pb.ListDatasetsResponse, None, None]:
    listed = kind.list_datasets(configure(kind, target))
    try:
        for dataset in listed:
            yield pb.ListDatasetsResponse(dataset=_dataset_to_proto(dataset))
    finally:
        if isinstance(listed, Generator):
            listed.close()


def _dataset_to_proto(dataset: Dataset) -> pb.Dataset:
    schema = b"" if dataset.schema is None else dataset.schema.serialize().to_pybytes()
    return pb.Dataset(
        name=dataset.name,
        dataset=dataset.dataset,
        arrow_schema=schema,
        key_columns=dataset.key_columns,
        selected=dataset.selected,
        problem=dataset.problem.diagnostic() if dataset.problem else None,
    )


def _no_effect(key: str, why: str) -> diagnostic_pb2.Diagnostic:
    return diagnostic_pb2.Diagnostic(
        severity=diagnostic_pb2.SEVERITY_WARNING,
        error_class=diagnostic_pb2.ERROR_CLASS_CONFIG,
        code="config.no_effect",
        message=f"`{key}` has no effect here: {why}",
        fix="Remove it, or leave it: it does no harm.",
        config_path=key,
    )


def _unreadable(error: ConnectorError) -> diagnostic_pb2.Diagnostic:
    return diagnostic_pb2.Diagnostic(
        severity=diagnostic_pb2.SEVERITY_WARNING,
        error_class=diagnostic_pb2.ERROR_CLASS_CONFIG,
        code="config.last_applied",
        message=f"the configuration that was applied last cannot be read any more: {error.message}",
        fix="Remove by hand what only that one had outside.",
        config_path=error.config_path,
    )


def _error_of(step: Callable[[pb.Target], None], target: pb.Target) -> ConnectorError | None:
    try:
        step(target)
    except Exception as error:  # noqa: BLE001 - it is the answer
        return as_connector_error(error, "check")
    return None


async def _guard(
    context: grpc.aio.ServicerContext[Any, Any], stage: str, method: Callable[[], T]
) -> T:
    """Run a method of an author in a thread; its error becomes the call's."""
    try:
        return await asyncio.to_thread(method)
    except Exception as error:  # noqa: BLE001 - it is the answer
        await fail(context, as_connector_error(error, stage))
