"""Bodies under `/v1`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)

from penstock.gateway.bodies import Finding, ResponseBody
from penstock.gateway.configs import redact_config
from penstock.gateway.errors import error_message, finding_fields
from penstock.gateway.request_input import MAX_NUMBER, RequestBody
from penstock.gateway.routes.bodies import CreateConnector, trace_field, version_field
from penstock.model.config_redaction import ConfigDifference
from penstock.model.connector import Connector, KeptOffsets, Revision, TaskState
from penstock.model.datasets import DEFAULT_DATASETS, MAX_DATASETS, Dataset
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.inspection import PreviewResult as PreviewedRows
from penstock.model.metrics import SHARE_WORDS, MinMeanMax, TaskMetrics
from penstock.model.offset import OffsetVersion as StoredOffsetVersion
from penstock.model.status import ClusterStatus, ConnectorStatus, RunState, RunStatus, WorkerStatus
from penstock_values.identity import canonical_json


class ConnectorDetails(ResponseBody):
    """Everything that is stored of a connector."""

    name: str
    kind: Literal["source", "sink", "pipeline", "mirror", "unspecified"]
    target_state: Literal["RUNNING", "PAUSED", "STOPPED"]
    generation: str
    revision: int
    version: int
    config: dict[str, str]

    @classmethod
    def of(cls, stored: Connector) -> Self:
        """Build the body of a stored connector."""
        kind: Any = stored.kind.name.lower()
        target_state: Any = stored.target_state.name
        return cls(
            name=stored.name,
            kind=kind,
            target_state=target_state,
            generation=stored.generation,
            revision=stored.revision,
            version=stored.version,
            config=redact_config(stored.config, stored.secret_keys),
        )


class KeptOffsetsOf(ResponseBody):
    """A deleted connector whose offsets are kept."""

    name: str
    kind: Literal["source", "sink", "pipeline", "mirror", "unspecified"]
    connector_class: str
    generation: str
    kept_at: str

    @classmethod
    def of(cls, kept: KeptOffsets) -> Self:
        """Build the body of kept offsets."""
        kind: Any = kept.kind.name.lower()
        return cls(
            name=kept.name,
            kind=kind,
            connector_class=kept.connector_class,
            generation=kept.generation,
            kept_at=datetime.fromtimestamp(kept.kept_at, UTC).isoformat(),
        )


class KeptOffsetsList(ResponseBody):
    """All kept offsets that the caller sees."""

    kept: list[KeptOffsetsOf]


class SignalBody(RequestBody):
    """A signal: its type and `data` are those that the documentation of the source names. A field
    of `data` that stands beside it would change what is meant, so it is refused.
    """

    model_config = ConfigDict(extra="forbid")

    type: StrictStr = Field(min_length=1, max_length=200)
    data: dict[str, Any] = Field(default_factory=dict)
    id: StrictStr = Field(default="", max_length=42)


class SentSignal(ResponseBody):
    """A signal that was written."""

    id: str
    type: str
    written_to: str


class Version(ResponseBody):
    """A version of a configuration."""

    version: int
    written_at: str
    cause: str
    restored: int | None = None
    config: dict[str, str] | None = None

    @classmethod
    def of(cls, revision: Revision, config: dict[str, str] | None = None) -> Self:
        """Build the body of a version. A list of versions has no `config`."""
        body = cls(
            version=revision.version,
            written_at=datetime.fromtimestamp(revision.written_at, UTC).isoformat(),
            cause=revision.cause.name.lower(),
        )
        if revision.restored:
            body.restored = revision.restored
        if config is not None:
            body.config = config
        return body


class Revisions(ResponseBody):
    """Versions, newest first."""

    revisions: list[Version]


class Difference(ResponseBody):
    """A key that differs; null where it is absent."""

    key: str
    before: str | None
    after: str | None

    @classmethod
    def all_of(cls, differences: Iterable[ConfigDifference]) -> list[Self]:
        """Build the bodies of differences."""
        return [cls(key=one.key, before=one.before, after=one.after) for one in differences]


class Differences(ResponseBody):
    """Keys that differ."""

    differences: list[Difference]


class Rollback(RequestBody):
    """The version to go back to."""

    version: StrictInt = Field(ge=1, le=MAX_NUMBER)


class Rewind(RequestBody):
    """The time to go back to, in ISO 8601 with its zone."""

    to: StrictStr
    dry_run: StrictBool = False
    prefix: StrictStr = ""

    @model_validator(mode="before")
    @classmethod
    def check_time(cls, fields: Any) -> Any:
        """Refuse a body without a valid time.

        Raises:
            ConfigError: `offset.no_time`.
        """
        parse_time(fields.get("to"))
        return fields


def _read_edit(value: object) -> dict[str, Any] | str:
    if not isinstance(value, dict | str):
        raise ValueError("expected an object of columns, or the whole text of a row")  # noqa: TRY004 - pydantic's way
    return value


RowEdit = Annotated[
    dict[str, Any] | str,
    PlainValidator(_read_edit),
    WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "string"}]}),
]
"""Columns of a row with their new values; or the whole text of one that could not be read."""


class Replay(RequestBody):
    """Which dead letters to replay, and what to change of their rows."""

    ids: StrictStr = ""
    all: StrictBool = False
    code: StrictStr = ""
    stage: StrictStr = ""
    dataset: StrictStr = ""
    set: dict[str, Any] = Field({})
    edits: dict[str, RowEdit] = Field({})
    dry_run: StrictBool = False


class ReplayedRow(ResponseBody):
    """A row as it is replayed. `raw`: the text that the source could not read, where it is one."""

    id: str
    row: dict[str, Any]
    raw: str | None


class NotReplayed(ResponseBody):
    """A dead letter that was selected and is not replayed, because its bytes are not a row."""

    id: str
    code: str
    message: str
    fix: str
    raw: str | None


class ReplayStarted(ResponseBody):
    """A replay that was started, or a dry run. Dead letters as `0/3,0/17-20`. `rows` and `reasons`
    are those of the first hundred.
    """

    connector: str
    letters: str
    count: int
    epoch: int
    replayed_before: str
    not_replayed: str
    reasons: list[NotReplayed]
    rows: list[ReplayedRow]


class ReplayState(ResponseBody):
    """The progress of the newest replay."""

    connector: str
    state: str
    epoch: int
    letters: int
    replayed: int
    failed_again: int
    why: str | None


class SeverityFinding(Finding):
    """A finding of any severity."""

    severity: str
    class_: str = Field(alias="class")

    @classmethod
    def of(cls, diagnostic: Diagnostic) -> Self:
        """Build the body of a finding."""
        severity, class_ = diagnostic.severity.name.lower(), diagnostic.error_class.name.lower()
        fields = {**finding_fields(diagnostic), "severity": severity, "class": class_}
        return cls(message=error_message(diagnostic), **fields)

    @classmethod
    def all_of(cls, diagnostics: Iterable[Diagnostic]) -> list[Self]:
        """Build the bodies of findings."""
        return [cls.of(one) for one in diagnostics]


class Findings(ResponseBody):
    """The kind of connector of a configuration, and the findings."""

    kind: str
    findings: list[SeverityFinding]


class Comparison(ResponseBody):
    """The changes of a configuration. `revision` 0: the connector does not exist."""

    revision: int
    target_state: str
    differences: list[Difference]
    findings: list[SeverityFinding]


class OffsetVersion(ResponseBody):
    """An offset of a partition since a time."""

    offset: dict[str, Any] | None
    epoch: int
    written_at: str

    @classmethod
    def of(cls, version: StoredOffsetVersion) -> Self:
        """Build the body of a version of an offset."""
        return cls(
            offset=offset_value(version.offset),
            epoch=version.epoch,
            written_at=version.written_at.isoformat(),
        )


class OffsetHistory(ResponseBody):
    """Offsets, newest first."""

    versions: list[OffsetVersion]


class TaskNumbers(ResponseBody):
    """A task with its metrics since its start; null: unknown."""

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
    rows_under_way: int | None = None
    batch_seconds: float | None = None
    commit_seconds: float | None = None
    time_shares: dict[str, float] | None = None
    busy_with: str | None = None

    @classmethod
    def of(cls, task: RunStatus) -> Self:
        """Build the body of the status of a task; without a report of its worker, no metrics."""
        body = cls(
            id=task.number,
            state=_CONNECTING if _is_connecting(task) else task.state.name,
            worker_id=task.worker,
            **version_field(task),
            **trace_field(task.diagnostic),
            epoch=task.epoch,
            restarts=task.restarts,
        )
        if (reported := task.task) is not None:
            body.rows_read = reported.rows_read
            body.rows_written = reported.rows_written
            body.rows_failed = reported.rows_failed
            body.bytes_read = reported.bytes_read
            body.batches = reported.batches
            body.rows_left = None if reported.rows_left < 0 else reported.rows_left
            body.bytes_left = None if reported.bytes_left < 0 else reported.bytes_left
            if (metrics := reported.metrics) is not None:
                shares = metrics.shares
                body.time_shares = None if shares is None else asdict(shares)
                body.busy_with = describe_shares(metrics)
                body.rows_under_way = metrics.rows_under_way
                body.batch_seconds = _mean(metrics.batch_seconds)
                body.commit_seconds = _mean(metrics.commit_seconds)
        return body


_CONNECTING: Final = "CONNECTING"
"""State of a task whose worker opens its source and sink for the first time. Kafka Connect's routes
have no word for it: their clients know five states.
"""


def _is_connecting(task: RunStatus) -> bool:
    reported = task.task
    is_opening = reported is not None and reported.state is TaskState.STARTING
    return is_opening and task.state is RunState.UNASSIGNED


def _mean(found: MinMeanMax | None) -> float | None:
    return None if found is None else found.mean


def describe_shares(metrics: TaskMetrics) -> str | None:
    """Say what a task does most of the time, and how long that takes it for a micro-batch; None
    while nothing is known.
    """
    if (shares := metrics.shares) is None:
        return None
    share, name = max((getattr(shares, name), name) for name in SHARE_WORDS)
    if share <= 0:
        return None
    seconds = {"rows": metrics.batch_seconds, "sink": metrics.commit_seconds}.get(name)
    each = f": {seconds.mean * 1000:,.0f} ms a micro-batch" if seconds else ""
    return f"{SHARE_WORDS[name]}{each}, {share:.0%} of the time"


class ConnectorNumbers(ResponseBody):
    """A connector with its tasks."""

    name: str
    kind: str
    state: str
    worker: str
    why: str | None
    tasks: list[TaskNumbers]

    @classmethod
    def of(cls, status: ConnectorStatus) -> Self:
        """Build the body of the status of a connector."""
        return cls(
            name=status.name,
            kind=status.kind.name.lower(),
            state=status.state.name,
            worker=status.worker,
            why=str(status.diagnostic) if status.diagnostic else None,
            tasks=[TaskNumbers.of(task) for task in status.tasks],
        )


class StatusList(ResponseBody):
    """All connectors."""

    connectors: list[ConnectorNumbers]


class WorkerView(ResponseBody):
    """A worker."""

    id: str
    name: str
    address: str
    labels: dict[str, str]
    draining: bool
    connected: bool
    tasks: int
    leaving: int

    @classmethod
    def of(cls, worker: WorkerStatus) -> Self:
        """Build the body of the status of a worker."""
        return cls(
            id=worker.id,
            name=worker.name,
            address=worker.address,
            labels=dict(worker.labels),
            draining=worker.draining,
            connected=worker.connected,
            tasks=worker.tasks,
            leaving=worker.leaving,
        )


class ClusterView(ResponseBody):
    """The cluster, as its leader sees it."""

    leader: str
    revision: int
    unassigned: int
    moving: int
    workers: list[WorkerView]

    @classmethod
    def of(cls, cluster: ClusterStatus) -> Self:
        """Build the body of the status of the cluster."""
        return cls(
            leader=cluster.leader,
            revision=cluster.revision,
            unassigned=cluster.unassigned,
            moving=cluster.moving,
            workers=[WorkerView.of(one) for one in cluster.workers],
        )


class RefusedRow(ResponseBody):
    """A row that fails, by its number from 1."""

    row: int
    finding: SeverityFinding


class PreviewResult(ResponseBody):
    """Rows after the transforms, and rows that failed. `unread_count`: how many rows the source
    could not read on the way to these; `unread`: why, of the first of them.
    """

    dataset: str
    rows: list[dict[str, Any]]
    failed: list[RefusedRow]
    unread_count: int
    unread: list[SeverityFinding]

    @classmethod
    def of(cls, preview: PreviewedRows) -> Self:
        """Build the body of a preview."""
        return cls(
            dataset=preview.dataset,
            rows=[json.loads(row) for row in preview.rows],
            failed=[
                RefusedRow(row=row, finding=SeverityFinding.of(reason))
                for row, reason in preview.failed
            ],
            unread_count=preview.unread_count,
            unread=SeverityFinding.all_of(preview.unread),
        )


class DatasetColumn(ResponseBody):
    """A column of the rows of a dataset."""

    name: str
    type: str = Field(description="Arrow type, for example int64 or timestamp[us, tz=UTC].")
    nullable: bool
    key: bool


class ListedDataset(ResponseBody):
    """A dataset that a source can read. `selected`: the configuration reads it."""

    name: str
    dataset: str
    selected: bool
    columns: list[DatasetColumn]
    problem: SeverityFinding | None

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """Build the body of a dataset."""
        return cls(
            name=dataset.name,
            dataset=dataset.dataset,
            selected=dataset.selected,
            columns=[
                DatasetColumn(name=one.name, type=one.type, nullable=one.nullable, key=one.key)
                for one in dataset.columns
            ],
            problem=SeverityFinding.of(dataset.problem) if dataset.problem else None,
        )


class DrainProgress(ResponseBody):
    """The progress of a drain."""

    tasks_left: int


class PreviewBody(CreateConnector):
    """A connector, and rows that it might read."""

    dataset: str = ""
    columns: dict[str, str] = Field({}, description="Types of columns that values do not show.")
    rows: list[dict[str, Any]] | None = None
    sample: int | None = Field(
        None, ge=1, le=1000, description="Number of rows to read from the source."
    )


class DatasetsBody(CreateConnector):
    """A connector whose source is to list its datasets."""

    limit: int | None = Field(
        None, ge=1, le=MAX_DATASETS, description=f"Number of datasets; {DEFAULT_DATASETS} if unset."
    )


def offset_value(offset: Mapping[str, Any] | None) -> Any:
    """Return an offset as JSON values; None for no offset."""
    return None if offset is None else json.loads(canonical_json(dict(offset)))


def parse_time(value: Any, name: str = "to") -> datetime:
    """Return a time in ISO 8601 with its zone; `name` is the field that has it.

    Raises:
        ConfigError: `offset.no_time`.
    """
    try:
        found = datetime.fromisoformat(value)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):  # out of the range of datetime
        pass
    raise ConfigError(
        "offset.no_time",
        f"`{name}` is not a time with a zone",
        fix="Write it as 2026-01-31T08:00:00Z, or with a zone such as +01:00.",
        config_path=name,
    )
