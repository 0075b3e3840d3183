"""How a topic's columns follow its rows: what is new is added at the end, nothing else changes.
Pure.

Rows of a narrower type are widened when they are written. A column that rows no longer have stays,
and is null in them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.model.errors import SchemaError
from penstock.topic.embedded import actions
from penstock.topic.embedded.spec import TopicSpec
from penstock.topic.embedded.state import Action, TopicState
from penstock.topic_files import joined_type
from penstock.topic_files.types import refuse_names


def evolved(
    state: TopicState, rows: pa.Schema, spec: TopicSpec, topic: str, now_ms: int
) -> Sequence[Action] | None:
    """Return the lines that let a topic have these rows; None when it can already."""
    columns = joined_columns(state.columns, rows, topic)
    described = TopicSpec(
        state.spec.partitions,
        spec.key_columns or state.spec.key_columns,
        spec.retention if spec.retention is not None else state.spec.retention,
    )
    if columns.equals(state.columns) and described == state.spec:
        return None
    return [
        actions.info(now_ms, "CHANGE TOPIC", {}),
        *actions.protocol_for(columns, state.protocol),
        actions.described(state.metadata, columns, described),
    ]


def joined_columns(table: pa.Schema, rows: pa.Schema, topic: str) -> pa.Schema:
    """Return a topic's columns with those that it lacks for these rows at the end.

    Raises:
        SchemaError: `topic.schema_incompatible`, `topic.column_name`.
    """
    refuse_names([*table.names, *(n for n in rows.names if n not in set(table.names))], topic)
    columns = {field.name: field for field in table}
    for field in rows:
        has = columns.setdefault(field.name, field)
        joined = joined_type(has.type, field.type)
        if joined is None:
            raise SchemaError(
                "topic.schema_incompatible",
                f"column `{field.name}` of topic {topic} is {has.type}, rows have {field.type}",
                fix="Cast the column with a transform, or route the rows to another topic.",
                dataset=topic,
            )
        columns[field.name] = has.with_type(joined)
    return pa.schema(columns.values())
