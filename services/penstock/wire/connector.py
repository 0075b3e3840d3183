"""penstock.api.connector.v1 ↔ task plans, resolved configurations, prepared transactions."""

from __future__ import annotations

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.model.connector import Target, TaskPlan
from penstock.model.stream import PreparedTxn
from penstock.wire import record


def plan_to_proto(plan: TaskPlan) -> connector_pb.TaskPlan:
    """Return the message for a task plan."""
    return connector_pb.TaskPlan(
        task_id=plan.task_id,
        config=plan.config,
        partitions=[record.partition_to_proto(p) for p in plan.partitions],
    )


def plan_from_proto(message: connector_pb.TaskPlan) -> TaskPlan:
    """Return the task plan of a message."""
    return TaskPlan(
        task_id=message.task_id,
        partitions=tuple(record.partition_from_proto(p) for p in message.partitions),
        config=dict(message.config),
    )


def target_to_proto(target: Target) -> connector_pb.Target:
    """Return the message for a configured connector.
    A name `plugin/connector` is sent without its plugin, which the plugin process does not need.
    """
    return connector_pb.Target(
        connector=target.connector.rpartition("/")[2],
        instance=target.instance,
        config=target.config,
        secrets=target.secrets,
    )


def prepared_to_proto(txn: PreparedTxn) -> sink_pb.PreparedTxn:
    """Return the message for a prepared transaction."""
    return sink_pb.PreparedTxn(txn_id=txn.txn_id, epoch=txn.epoch, state=txn.state, token=txn.token)


def prepared_from_proto(message: sink_pb.PreparedTxn) -> PreparedTxn:
    """Return the prepared transaction of a message."""
    return PreparedTxn(message.txn_id, message.epoch, message.state, message.token)
