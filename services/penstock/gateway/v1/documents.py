"""The shapes of requests and answers under `/v1`, for the OpenAPI document alone."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from penstock.gateway.documents import CreateConnector, Finding


class Whole(BaseModel):
    """All that is stored of a connector."""

    name: str
    kind: Literal["source", "sink", "pipeline", "mirror", "unspecified"]
    target_state: Literal["RUNNING", "PAUSED", "STOPPED"]
    generation: str
    revision: int
    version: int
    config: dict[str, str]


class Version(BaseModel):
    """A version of a configuration."""

    version: int
    written_at: str
    cause: str
    restored: int | None = None
    config: dict[str, str] | None = None


class Revisions(BaseModel):
    """Versions, newest first."""

    revisions: list[Version]


class Difference(BaseModel):
    """A key that differs; null where it is not there."""

    key: str
    before: str | None
    after: str | None


class Differences(BaseModel):
    """What differs."""

    differences: list[Difference]


class Rollback(BaseModel):
    """The version to go back to."""

    version: int = Field(ge=1, le=(1 << 63) - 1)


class Rewind(BaseModel):
    """The time to go back to, in ISO 8601 with its zone."""

    to: str
    dry_run: bool = False
    prefix: str = ""


class Replay(BaseModel):
    """Which dead letters to replay, and what to change of their rows."""

    ids: str = ""
    all: bool = False
    code: str = ""
    stage: str = ""
    dataset: str = ""
    set: dict[str, Any] = {}
    edits: dict[str, dict[str, Any]] = {}
    dry_run: bool = False


class ReplayedRow(BaseModel):
    """A row as it is replayed."""

    id: str
    row: dict[str, Any]


class ReplayBegun(BaseModel):
    """A replay that begins, or would. Letters as `0/3,0/17-20`."""

    connector: str
    letters: str
    count: int
    epoch: int
    replayed_before: str
    without_row: str
    rows: list[ReplayedRow]


class ReplayState(BaseModel):
    """How far the newest replay is."""

    connector: str
    state: str
    epoch: int
    letters: int
    replayed: int
    failed_again: int
    why: str | None


class Noted(Finding):
    """A finding of any severity."""

    severity: str
    class_: str = Field(alias="class")


class Findings(BaseModel):
    """What a configuration makes, and what was found."""

    kind: str
    findings: list[Noted]


class Comparison(BaseModel):
    """What a configuration would change. `revision` 0: there is no such connector."""

    revision: int
    target_state: str
    differences: list[Difference]
    findings: list[Noted]


class OffsetVersion(BaseModel):
    """An offset that a partition had from a time on."""

    offset: dict[str, Any] | None
    epoch: int
    written_at: str


class OffsetHistory(BaseModel):
    """Offsets, newest first."""

    versions: list[OffsetVersion]


class TaskNumbers(BaseModel):
    """A task with what it has moved since it began; null where that is not known."""

    id: int
    state: str
    worker_id: str
    version: str | None = None
    trace: str | None = None
    epoch: int
    restarts: int
    rows_read: int | None = None
    rows_written: int | None = None
    rows_failed: int | None = None
    bytes_read: int | None = None
    batches: int | None = None
    rows_left: int | None = None
    bytes_left: int | None = None


class ConnectorNumbers(BaseModel):
    """A connector with its tasks."""

    name: str
    kind: str
    state: str
    worker: str
    why: str | None
    tasks: list[TaskNumbers]


class Everything(BaseModel):
    """All connectors."""

    connectors: list[ConnectorNumbers]


class WorkerView(BaseModel):
    """A worker."""

    id: str
    name: str
    address: str
    labels: dict[str, str]
    draining: bool
    connected: bool
    tasks: int
    leaving: int


class ClusterView(BaseModel):
    """The cluster, as its leader sees it."""

    leader: str
    revision: int
    unassigned: int
    moving: int
    workers: list[WorkerView]


class RefusedRow(BaseModel):
    """A row that fails, by its number from 1."""

    row: int
    finding: Noted


class Rehearsed(BaseModel):
    """What became of rows."""

    dataset: str
    rows: list[dict[str, Any]]
    failed: list[RefusedRow]


class Drained(BaseModel):
    """How far it is."""

    tasks_left: int


class Rehearse(CreateConnector):
    """A connector, and rows that it might read."""

    dataset: str = ""
    columns: dict[str, str] = Field({}, description="Types that values do not tell.")
    rows: list[dict[str, Any]] | None = None
    sample: int | None = Field(None, ge=1, le=1000, description="So many rows of the source.")
