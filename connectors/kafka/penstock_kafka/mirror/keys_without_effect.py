"""Keys of MirrorMaker that load and do nothing here. Each has its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock_connector import key
from penstock_connector.reach import Reaching

_JAVA: Final = "it names a class of Java"
_OF_MESSAGES: Final = "`mirror-source` mirrors rights"
_OFTEN: Final = "topics are listed every ten seconds"
_EACH_TIME: Final = "groups are listed at each checkpoint"
_CREATED: Final = "`topic.creation.…` of the sink has that"


def _without_effect(name: str, why: str) -> str:
    doc = f"No effect: {why}."
    found: str = key("", doc=doc, name=name, no_effect=why, group="Without effect")
    return found


@dataclass(frozen=True)
class KeysWithoutEffect(Reaching):
    """Keys of MirrorMaker that another part of Penstock decides."""

    refresh_topics_enabled: str = _without_effect("refresh.topics.enabled", _OFTEN)
    refresh_topics_interval: str = _without_effect("refresh.topics.interval.seconds", _OFTEN)
    refresh_groups_enabled: str = _without_effect("refresh.groups.enabled", _EACH_TIME)
    refresh_groups_interval: str = _without_effect("refresh.groups.interval.seconds", _EACH_TIME)
    sync_group_offsets_interval: str = _without_effect(
        "sync.group.offsets.interval.seconds", "groups get their offsets with each checkpoint"
    )
    offset_lag_max: str = _without_effect("offset.lag.max", "every transaction has offset syncs")
    emit_offset_syncs: str = _without_effect(
        "emit.offset-syncs.enabled", "the sink writes them where `offset.syncs.topic` is set"
    )
    offset_syncs_location: str = _without_effect(
        "offset-syncs.topic.location",
        "offset syncs are in the target, in the transactions of the messages",
    )
    topic_filter: str = _without_effect("topic.filter.class", _JAVA)
    group_filter: str = _without_effect("group.filter.class", _JAVA)
    config_filter: str = _without_effect("config.property.filter.class", _JAVA)
    forwarding_admin: str = _without_effect("forwarding.admin.class", _JAVA)
    syncs_replicas: str = _without_effect("offset-syncs.topic.replication.factor", _CREATED)
    heartbeats_replicas: str = _without_effect("heartbeats.topic.replication.factor", _CREATED)
    checkpoints_replicas: str = _without_effect("checkpoints.topic.replication.factor", _CREATED)


@dataclass(frozen=True)
class AclKeysWithoutEffect:
    """Keys about rights, of sources that do not mirror topics."""

    sync_topic_acls: str = _without_effect("sync.topic.acls.enabled", _OF_MESSAGES)
    sync_topic_acls_interval: str = _without_effect(
        "sync.topic.acls.interval.seconds", _OF_MESSAGES
    )
