"""Models of request and response bodies, for the OpenAPI document only.

Responses are built by `response_bodies`, requests are read by `request_input` and `configs`. Tests
compare both with these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel

Statuses: TypeAlias = dict[int | str, dict[str, Any]]


class Finding(BaseModel):
    """An error or a warning about a configuration."""

    message: str
    code: str
    config_path: str | None = None
    fix: str | None = None
    suggestion: str | None = None
    detail: str | None = None


class Failure(BaseModel):
    """An error: the two fields of Kafka Connect, and more."""

    error_code: int
    message: str
    code: str = Field(description="Stable identifier of the error, such as config.missing.")
    config_path: str | None = None
    fix: str | None = None
    suggestion: str | None = None
    detail: str | None = None
    errors: list[Finding] | None = None


class ServerInfo(BaseModel):
    """The version of the gateway, and its cluster."""

    version: str
    commit: str
    kafka_cluster_id: str


class Health(BaseModel):
    """Whether connectors can be created and run."""

    status: Literal["healthy", "starting", "unhealthy"]
    message: str


class Config(RootModel[dict[str, str | int | float | bool | None]]):
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


class TaskId(BaseModel):
    """The id of a task."""

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
    """The state of a connector without its tasks."""

    state: _State
    worker_id: str
    version: str | None = None
    trace: str | None = None


class TaskState(BaseModel):
    """The state of a task."""

    id: int
    state: _State
    worker_id: str
    version: str | None = None
    trace: str | None = None


class ConnectorState(BaseModel):
    """The states of a connector and its tasks."""

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
    """A task with its configuration."""

    id: TaskId
    config: dict[str, str]


class Tasks(RootModel[list[Task]]):
    """Tasks, in order of number."""


class Offset(BaseModel):
    """A partition and its offset."""

    partition: dict[str, Any]
    offset: dict[str, Any] | None = Field(None, description="null, or absent: remove the offset.")


class Offsets(BaseModel):
    """Offsets; of a sink `kafka_topic`, `kafka_partition` and `kafka_offset`."""

    offsets: list[Offset]


class Message(BaseModel):
    """A message about the change."""

    message: str


class OwnTopics(BaseModel):
    """Topics."""

    topics: list[str]


class Topics(RootModel[dict[str, OwnTopics]]):
    """Topics, by connector."""


class Plugin(BaseModel):
    """A connector, transform, predicate or converter of a worker."""

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
    """The value of a key, and its errors."""

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
    """A validated configuration, key by key."""

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


def responses(status: int, model: Any = None, *also: int) -> Statuses:
    """Return the successful responses of a route, for the document."""
    good: dict[str, Any] = {"model": model} if model is not None else {}
    return dict.fromkeys((status, *also), good)


def line_responses() -> Statuses:
    """Return the successful response of a route that streams JSON lines."""
    return {200: {"content": {"application/x-ndjson": {}}}}


def error_responses() -> Statuses:
    """Return the error responses of every route."""
    return {code: {"model": Failure} for code in FAILURES}


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return the request body of a route."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    inner = schema.pop("$defs", {})
    for name, definition in inner.items():
        schema = _inline(schema, f"#/components/schemas/{name}", definition)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _inline(schema: Any, reference: str, definition: Any) -> Any:
    match schema:
        case {"$ref": found} if found == reference:
            return definition
        case dict():
            return {key: _inline(one, reference, definition) for key, one in schema.items()}
        case list():
            return [_inline(one, reference, definition) for one in schema]
    return schema
