"""Where a life of a task begins to read, and in which mode its rows are committed."""

from __future__ import annotations

from dataclasses import replace

from penstock.model.connector import CommitMode, Partition, TaskPlan
from penstock.model.errors import ConfigError
from penstock.model.identity import parse_canonical, partition_key
from penstock.model.stream import Offsets, WriteOpened
from penstock.worker.run_spec import Claim, TaskOffsets


async def positioned(
    plan: TaskPlan, opened: WriteOpened, claim: Claim, stored: TaskOffsets
) -> TaskPlan:
    """Return a plan with the offsets to start from, from whoever is the authority for them.

    A sink that keeps offsets itself is, where its last transaction is another one than was stored:
    a crash came between the two, or its database went back in time. When it is the same, what is
    stored counts: people may have altered it since, and partitions may have been in other hands.
    """
    planned = {partition.id for partition in plan.partitions}
    offsets: Offsets
    offsets = await (stored.every() if plan.finds_others else stored.get(sorted(planned)))
    token, last = opened.committed, claim.last_prepared
    known = token is not None and last is not None and token.txn_id == last.txn_id
    if opened.commit_mode is CommitMode.SINK and token is not None and not known:
        offsets = {**offsets, **parse_canonical(token.token.decode())}
    found = sorted(offsets.keys() - planned) if plan.finds_others else []
    later = tuple(Partition(partition_key(id_)) for id_ in found)
    return replace(plan, partitions=tuple(_at(p, offsets) for p in (*plan.partitions, *later)))


def refuse_weaker(asked: CommitMode, opened: WriteOpened) -> None:
    """Refuse a weaker commit mode than was asked for: never a quiet downgrade (rule R13)."""
    if asked is not CommitMode.UNSPECIFIED and opened.commit_mode is not asked:
        raise ConfigError(
            "delivery.not_available",
            f"the write end works in {opened.commit_mode.name} mode, {asked.name} was asked for",
            fix="Choose a sink that supports it, or leave `delivery` out.",
            config_path="delivery",
        )


def _at(partition: Partition, offsets: Offsets) -> Partition:
    offset = offsets.get(partition.id)
    return partition if offset is None else replace(partition, offset=offset)
