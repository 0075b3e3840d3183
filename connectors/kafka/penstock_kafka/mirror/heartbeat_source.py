"""A record a second in the topic `heartbeats`, by whose age in other clusters lag is seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock_connector import Batch, Partition, Source, key
from penstock_connector.messages import KEY, VALUE
from penstock_kafka.mirror.config import MirrorConfig
from penstock_kafka.mirror.keys_without_effect import AclKeysWithoutEffect
from penstock_kafka.mirror.policy import HEARTBEATS
from penstock_kafka.mirror.records import ROWS, encode_heartbeat


@dataclass(frozen=True)
class HeartbeatConfig(AclKeysWithoutEffect, MirrorConfig):
    """How often."""

    emit_heartbeats_enabled: bool = key(True, doc="Whether there are any.", group="Heartbeats")
    emit_heartbeats_interval_seconds: float = key(
        1.0, doc="Seconds between two; 0 or less: there are none.", group="Heartbeats"
    )


class HeartbeatSource(Source[HeartbeatConfig]):
    """Heartbeats from one cluster to another."""

    name = "mirror-heartbeat-source"
    replayable = False
    aliases = (
        "MirrorHeartbeatConnector",
        "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
    )

    @classmethod
    def plan(
        cls, config: HeartbeatConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return the only partition."""
        names = {
            "sourceClusterAlias": config.source_cluster_alias,
            "targetClusterAlias": config.target_cluster_alias,
        }
        is_on = config.emit_heartbeats_enabled and config.emit_heartbeats_interval_seconds > 0
        return [Partition(names, datasets=(HEARTBEATS,))] if is_on else []

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Begin."""
        self._next = time.monotonic()

    def read_batch(self) -> Batch | None:
        """Return a heartbeat when it is time for one."""
        config = self.config
        if time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + config.emit_heartbeats_interval_seconds
        at_ms = time.time_ns() // 1_000_000
        clusters = config.source_cluster_alias, config.target_cluster_alias
        rows = [dict(zip((KEY, VALUE), encode_heartbeat(*clusters, at_ms), strict=True))]
        return Batch(
            pa.RecordBatch.from_pylist(rows, ROWS), offset={"at": at_ms}, dataset=HEARTBEATS
        )

    def wait(self, timeout: float) -> None:
        """Block until it is time."""
        self.stopping.wait(min(timeout, max(self._next - time.monotonic(), 0)))
