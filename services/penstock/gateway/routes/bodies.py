"""Bodies of Kafka Connect's and RocketMQ Connect's routes.

Kafka Connect has only sources and sinks. A pipeline reads with a plugin, so its type is `source`;
`/v1` returns its kind. A completed task is RUNNING, because tasks of Kafka Connect never complete.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel

from penstock.gateway.bodies import ResponseBody, ResponseValue
from penstock.gateway.configs import REDACTED_VIEW, ConfigView
from penstock.model.admin import ValidatedConnector
from penstock.model.config_def import ConfigValue, ConnectorDefinition, KeyDefinition
from penstock.model.config_redaction import REDACTED, is_sensitive_key, redact_value
from penstock.model.connector import Connector, ConnectorKind, TargetState, TaskPlan
from penstock.model.errors import Diagnostic, Severity
from penstock.model.status import ConnectorStatus, RunState, RunStatus
from penstock_values.identity import canonical_json

MAX_PARTITIONS: Final = 100
"""Partitions of a task in a response: a source may have millions."""

_Type: TypeAlias = Literal["source", "sink", "unknown"]
_TaskState: TypeAlias = Literal["UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "RESTARTING"]
_State: TypeAlias = _TaskState | Literal["STOPPED"]

_TYPES: Final[Mapping[ConnectorKind, _Type]] = {
    ConnectorKind.UNSPECIFIED: "unknown",
    ConnectorKind.SOURCE: "source",
    ConnectorKind.PIPELINE: "source",
    ConnectorKind.SINK: "sink",
    ConnectorKind.MIRROR: "sink",
}
_STATES: Final[Mapping[RunState, _State]] = {
    RunState.UNSPECIFIED: "UNASSIGNED",
    RunState.UNASSIGNED: "UNASSIGNED",
    RunState.RUNNING: "RUNNING",
    RunState.PAUSED: "PAUSED",
    RunState.FAILED: "FAILED",
    RunState.RESTARTING: "RESTARTING",
    RunState.STOPPED: "STOPPED",
    RunState.COMPLETED: "RUNNING",
}
_TASK_STATES: Final[Mapping[RunState, _TaskState]] = {
    **{state: word for state, word in _STATES.items() if word != "STOPPED"},
    RunState.STOPPED: "UNASSIGNED",  # only connectors are STOPPED: clients have closed enums
}


class ServerInfo(ResponseBody):
    """The version of the gateway, and its cluster."""

    version: str
    commit: str
    kafka_cluster_id: str


class Health(ResponseBody):
    """Whether connectors can be created and run."""

    status: Literal["healthy", "starting", "unhealthy"]
    message: str


class Config(ResponseValue[dict[str, str | int | float | bool | None]]):
    """A configuration. The values of a response are strings."""


class ConfigPatch(RootModel[dict[str, str | int | float | bool | None]]):
    """Keys to set; null removes a key."""


class CreateConnector(BaseModel):
    """A connector to create."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(min_length=1)] | int | float
    """A number is used as the text that was written."""
    config: dict[str, str | int | float | bool | None]
    initial_state: Literal["RUNNING", "PAUSED", "STOPPED"] | None = None


class TaskId(ResponseBody):
    """The id of a task."""

    connector: str
    task: int


class ConnectorInfo(ResponseBody):
    """A connector."""

    name: str
    config: dict[str, str]
    tasks: list[TaskId]
    type: _Type

    @classmethod
    def of(
        cls,
        connector: Connector,
        status: ConnectorStatus | None,
        view: ConfigView = REDACTED_VIEW,
    ) -> Self:
        """Build the body of a connector with the tasks of its status."""
        tasks = status.tasks if status else ()
        return cls(
            name=connector.name,
            config=view.show(connector),
            tasks=[TaskId(connector=connector.name, task=task.number) for task in tasks],
            type=_TYPES[connector.kind],
        )


class OwnState(ResponseBody):
    """The state of a connector without its tasks."""

    state: _State
    worker_id: str
    version: str | None = None
    trace: str | None = None


class TaskState(ResponseBody):
    """The state of a task."""

    id: int
    state: _TaskState
    worker_id: str
    version: str | None = None
    trace: str | None = None

    @classmethod
    def of(cls, task: RunStatus, target: TargetState = TargetState.RUNNING) -> Self:
        """Build the body of the status of a task. A completed task of a connector that should be
        PAUSED is PAUSED.
        """
        paused = task.state is RunState.COMPLETED and target is TargetState.PAUSED
        return cls(
            id=task.number,
            state="PAUSED" if paused else _TASK_STATES[task.state],
            worker_id=task.worker,
            **version_field(task),
            **trace_field(task.diagnostic),
        )


class ConnectorState(ResponseBody):
    """The states of a connector and its tasks."""

    name: str
    connector: OwnState
    tasks: list[TaskState]
    type: _Type

    @classmethod
    def of(cls, connector: Connector, status: ConnectorStatus | None) -> Self:
        """Build the body of a status. Without a status, no worker has the connector yet."""
        found = status or ConnectorStatus(connector.name, connector.generation)
        version = next(filter(None, map(version_field, found.tasks)), {})  # of its first task
        return cls(
            name=connector.name,
            connector=OwnState(
                state=_STATES[found.state],
                worker_id=found.worker,
                **version,
                **trace_field(found.diagnostic),
            ),
            tasks=[TaskState.of(task, connector.target_state) for task in found.tasks],
            type=_TYPES[connector.kind],
        )


def version_field(task: RunStatus) -> dict[str, Any]:
    """Return the field with the plugin version of a task that has been opened."""
    return {"version": task.task.plugin_version} if task.task and task.task.plugin_version else {}


def trace_field(diagnostic: Diagnostic | None) -> dict[str, Any]:
    """Return the field with the reason of a failure, if there is one."""
    if diagnostic is None:
        return {}
    return {"trace": f"{diagnostic}\n{diagnostic.detail}".strip()}


class Expanded(ResponseBody):
    """A connector in a list."""

    status: ConnectorState | None = None
    info: ConnectorInfo | None = None


class ListedConnectors(ResponseValue[list[str] | dict[str, Expanded]]):
    """Names, or connectors by name."""

    @classmethod
    def expanded(
        cls,
        connectors: Iterable[Connector],
        statuses: Mapping[str, ConnectorStatus],
        expansions: Iterable[str],
        view: ConfigView,
    ) -> Self:
        """Build the list with the requested expansions; `statuses` by generation."""
        kinds: dict[str, Any] = {
            "status": ConnectorState.of,
            "info": partial(ConnectorInfo.of, view=view),
        }
        wanted = {name: build for name, build in kinds.items() if name in expansions}
        return cls(
            {
                one.name: Expanded(
                    **{
                        name: build(one, statuses.get(one.generation))
                        for name, build in wanted.items()
                    }
                )
                for one in connectors
            }
        )


class Task(ResponseBody):
    """A task with its configuration."""

    id: TaskId
    config: dict[str, str]

    @classmethod
    def of(
        cls, connector: Connector, number: int, plan: TaskPlan, view: ConfigView = REDACTED_VIEW
    ) -> Self:
        """Build the body of a task. Its configuration has its first partitions."""
        keys = [dict(partition.key) for partition in plan.partitions[:MAX_PARTITIONS]]
        return cls(
            id=TaskId(connector=connector.name, task=number),
            config={**view.show(connector, plan.config), "partitions": canonical_json(keys)},
        )


class Tasks(ResponseValue[list[Task]]):
    """Tasks, in order of number."""


class Offset(ResponseBody):
    """A partition and its offset."""

    partition: dict[str, Any]
    offset: dict[str, Any] | None = Field(None, description="null, or absent: remove the offset.")


class Offsets(ResponseBody):
    """Offsets; of a sink `kafka_topic`, `kafka_partition` and `kafka_offset`."""

    offsets: list[Offset]


class Message(ResponseBody):
    """A message about the change."""

    message: str


class OwnTopics(ResponseBody):
    """Topics."""

    topics: list[str]


class Topics(ResponseValue[dict[str, OwnTopics]]):
    """Topics, by connector."""


class Plugin(ResponseBody):
    """A connector, transform, predicate or converter of a worker."""

    class_: str = Field(alias="class")
    type: str
    version: str | None = None

    @classmethod
    def of(cls, name: str, kind: str, version: str) -> Self:
        """Build the body of a plugin; `kind` is its type."""
        return cls.model_validate({"class": name, "type": kind, "version": version})


class Plugins(ResponseValue[list[Plugin]]):
    """Plugins."""


_KEY_TYPES: Final = frozenset(
    {"BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}
)
_IMPORTANCES: Final = frozenset({"HIGH", "MEDIUM", "LOW"})


class KeyInfo(ResponseBody):
    """A key of a configuration."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    order: int
    """The same: clients differ in which of the two they read."""
    width: str
    display_name: str
    dependents: list[str]

    @classmethod
    def of(cls, key: KeyDefinition) -> Self:
        """Build the body of a key. A type that Kafka Connect does not have is STRING."""
        kind, importance = key.type.upper(), key.importance.upper()
        order = key.order if key.group else -1
        return cls(
            name=key.name,
            type="PASSWORD" if key.sensitive else kind if kind in _KEY_TYPES else "STRING",
            required=key.required,
            default_value=None if key.sensitive else key.default,
            importance=importance if importance in _IMPORTANCES else "MEDIUM",
            documentation=key.documentation,
            group=key.group or None,
            order_in_group=order,
            order=order,
            width="NONE",
            display_name=key.display_name or key.name,
            dependents=[],
        )


class Keys(ResponseValue[list[KeyInfo]]):
    """Keys of a plugin."""


class KeyValue(ResponseBody):
    """The value of a key, and its errors."""

    name: str
    value: str | None
    recommended_values: list[str]
    errors: list[str]
    visible: bool

    @classmethod
    def of(
        cls,
        key: KeyDefinition,
        config: Mapping[str, str],
        value: ConfigValue | None,
        errors: list[str],
    ) -> Self:
        """Build the body of a key's value: what is configured, else what the plugin made of it."""
        text = config.get(key.name, key.default if value is None else value.value)
        secret = key.sensitive or is_sensitive_key(key.name)
        if key.name in config:
            text = redact_value(key.name, config[key.name], sensitive=secret)
        elif text is not None and secret:
            text = REDACTED
        return cls(
            name=key.name,
            value=text,
            recommended_values=list((value and value.recommended_values) or key.choices),
            errors=errors,
            visible=value.visible if value else True,
        )


class CheckedKey(ResponseBody):
    """A key with its value."""

    definition: KeyInfo
    value: KeyValue


class CheckedConfig(ResponseBody):
    """A validated configuration, key by key."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[CheckedKey]

    @classmethod
    def of(
        cls, described: ConnectorDefinition, config: Mapping[str, str], found: ValidatedConnector
    ) -> Self:
        """Build the body of a validation: every key with its value and errors: those of the
        framework, of the plugin, those that the configuration adds, and all others that it has:
        a client may store nothing but the keys of this body.

        An error without a key is at `connector.class`.
        """
        errors: dict[str, list[str]] = defaultdict(list)
        for finding in found.diagnostics:
            if finding.severity is Severity.ERROR:
                path = finding.config_path or "connector.class"
                errors[path].append(f"{finding.message.rstrip('.')}. {finding.fix}".strip())
        known = (*described.framework_keys, *described.keys, *found.added_keys)
        keys = {key.name: key for key in known}
        others = (name for name in (*config, *errors) if name not in keys)
        keys |= {name: KeyDefinition(name, sensitive=is_sensitive_key(name)) for name in others}
        values = {value.name: value for value in found.values}
        return cls(
            name=described.name,
            error_count=sum(bool(errors[name]) for name in keys),
            groups=list(dict.fromkeys(key.group for key in keys.values() if key.group)),
            configs=[
                CheckedKey(
                    definition=KeyInfo.of(key),
                    value=KeyValue.of(key, config, values.get(name), errors[name]),
                )
                for name, key in keys.items()
            ],
        )


class Logger(ResponseBody):
    """The level of a logger, and when it was set, in milliseconds since the epoch."""

    level: str
    last_modified: int | None


class Loggers(ResponseValue[dict[str, Logger]]):
    """Loggers that have a level."""


class Level(BaseModel):
    """A level."""

    level: str


class Enveloped(ResponseBody):
    """RocketMQ Connect's envelope of a body."""

    status: int
    body: Any


class Names(ResponseValue[list[str]]):
    """Names."""
