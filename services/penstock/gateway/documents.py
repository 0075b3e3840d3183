"""The shapes of requests and answers, for the OpenAPI document alone: what is sent is built by
`shapes`, what comes is read by `body`, and tests compare both with these.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel

Statuses: TypeAlias = dict[int | str, dict[str, Any]]


class Finding(BaseModel):
    """Something that is wrong with a configuration."""

    message: str
    code: str
    config_path: str | None = None
    fix: str | None = None
    suggestion: str | None = None
    detail: str | None = None


class Failure(BaseModel):
    """An error: Kafka Connect's two fields, and what is known besides."""

    error_code: int
    message: str
    code: str = Field(description="Stable and dotted.")
    config_path: str | None = None
    fix: str | None = None
    suggestion: str | None = None
    detail: str | None = None
    errors: list[Finding] | None = None


class ServerInfo(BaseModel):
    """What answers."""

    version: str
    commit: str
    kafka_cluster_id: str


class Health(BaseModel):
    """Whether connectors can be made and run."""

    status: Literal["healthy", "starting", "unhealthy"]
    message: str


class Config(RootModel[dict[str, str | int | float | bool | None]]):
    """A configuration; answers have texts alone."""


class ConfigPatch(RootModel[dict[str, str | int | float | bool | None]]):
    """Keys to set; null takes one away."""


class CreateConnector(BaseModel):
    """A connector to make."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(min_length=1)] | int | float
    """A number is taken as the text that it is written as."""
    config: dict[str, str | int | float | bool | None]
    initial_state: Literal["RUNNING", "PAUSED", "STOPPED"] | None = None


class TaskId(BaseModel):
    """A task."""

    connector: str
    task: int


class ConnectorInfo(BaseModel):
    """A connector."""

    name: str
    config: dict[str, str]
    tasks: list[TaskId]
    type: Literal["source", "sink", "unknown"]


_State: TypeAlias = Literal["UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "RESTARTING", "STOPPED"]


class OwnState(BaseModel):
    """How a connector itself is."""

    state: _State
    worker_id: str
    version: str | None = None
    trace: str | None = None


class TaskState(BaseModel):
    """How a task is."""

    id: int
    state: _State
    worker_id: str
    version: str | None = None
    trace: str | None = None


class ConnectorState(BaseModel):
    """How a connector and its tasks are."""

    name: str
    connector: OwnState
    tasks: list[TaskState]
    type: Literal["source", "sink", "unknown"]


class Expanded(BaseModel):
    """A connector in a list."""

    status: ConnectorState | None = None
    info: ConnectorInfo | None = None


class ListedConnectors(RootModel[list[str] | dict[str, Expanded]]):
    """Names, or connectors by name."""


class Task(BaseModel):
    """A task with what it does."""

    id: TaskId
    config: dict[str, str]


class Tasks(RootModel[list[Task]]):
    """Tasks, in order of number."""


class Offset(BaseModel):
    """A partition, and how far it was read."""

    partition: dict[str, Any]
    offset: dict[str, Any] | None = Field(None, description="null, or nothing: forget it.")


class Offsets(BaseModel):
    """Offsets; of a sink `kafka_topic`, `kafka_partition` and `kafka_offset`."""

    offsets: list[Offset]


class Message(BaseModel):
    """What was done."""

    message: str


class OwnTopics(BaseModel):
    """Topics."""

    topics: list[str]


class Topics(RootModel[dict[str, OwnTopics]]):
    """Topics, by connector."""


class Plugin(BaseModel):
    """A connector, transform, predicate or converter that some worker has."""

    model_config = ConfigDict(populate_by_name=True)
    class_: str = Field(alias="class")
    type: str
    version: str | None = None


class Plugins(RootModel[list[Plugin]]):
    """Plugins."""


class KeyInfo(BaseModel):
    """A key of a configuration."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: list[str]


class Keys(RootModel[list[KeyInfo]]):
    """Keys of a plugin."""


class KeyValue(BaseModel):
    """The value of a key, and what is wrong with it."""

    name: str
    value: str | None
    recommended_values: list[str]
    errors: list[str]
    visible: bool


class CheckedKey(BaseModel):
    """A key with its value."""

    definition: KeyInfo
    value: KeyValue


class CheckedConfig(BaseModel):
    """A configuration, key by key."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[CheckedKey]


class Logger(BaseModel):
    """The level of a logger, and when it was set, in milliseconds since the epoch."""

    level: str
    last_modified: int | None


class Loggers(RootModel[dict[str, Logger]]):
    """Loggers that have a level."""


class Level(BaseModel):
    """A level."""

    level: str


class Listed(BaseModel):
    """RocketMQ Connect's envelope of a list."""

    status: int
    body: list[Any]


class ByName(BaseModel):
    """RocketMQ Connect's envelope of a map."""

    status: int
    body: dict[str, Any]


class Names(RootModel[list[str]]):
    """Names."""


FAILURES: Final = (400, 401, 403, 404, 405, 408, 409, 413, 414, 415, 429, 500, 503)
"""Statuses that every route may answer with."""


def answers(status: int, model: Any = None, *also: int) -> Statuses:
    """Return what a route answers when it succeeds."""
    good: dict[str, Any] = {"model": model} if model is not None else {}
    return dict.fromkeys((status, *also), good)


def answers_lines() -> Statuses:
    """Return what a route answers that tells one JSON object on each line."""
    return {200: {"content": {"application/x-ndjson": {}}}}


def failures() -> Statuses:
    """Return what any route answers when it fails."""
    return {code: {"model": Failure} for code in FAILURES}


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """Return what a route takes as its body."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    inner = schema.pop("$defs", {})
    for name, definition in inner.items():
        schema = _inlined(schema, f"#/components/schemas/{name}", definition)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _inlined(schema: Any, reference: str, definition: Any) -> Any:
    match schema:
        case {"$ref": found} if found == reference:
            return definition
        case dict():
            return {key: _inlined(one, reference, definition) for key, one in schema.items()}
        case list():
            return [_inlined(one, reference, definition) for one in schema]
    return schema
