"""How targets are named: folders of datasets, and files that nothing else is called. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from penstock_builtin.file_sink.config import FileSinkConfig


def target_name(template: str, dataset: str, task_id: str) -> str:
    """Fill in a name. A dataset is one part of a path, and cannot climb out of its place."""
    topic = topic_name(dataset)
    return template.replace("${topic}", topic).replace("${task}", task_number(task_id))


def topic_name(dataset: str) -> str:
    """Return a dataset as one part of a path."""
    topic = quote(dataset, safe=" +=@,") or "rows"
    return topic.replace(".", "%2E") if set(topic) == {"."} else topic


def task_number(task_id: str) -> str:
    """Return the last part of a task's id: its number within the connector."""
    return quote(task_id.rpartition("-")[2], safe="")


def file_begin(config: FileSinkConfig, dataset: str, task_id: str, txn_id: int) -> str:
    """Return how the names of files of a transaction begin. Sorted as text, they are in the order
    of its rows.
    """
    task = quote(task_id, safe="")
    if config.has_storage_place:  # as Confluent's, whose numbers are a partition and an offset
        width = config.filename_offset_zero_pad_width
        return f"{topic_name(dataset)}+{task}+{txn_id:0{width}d}"
    return f"part-{task}-{txn_id:010d}"
