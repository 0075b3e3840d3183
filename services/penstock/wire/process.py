"""penstock.api.process.v1 ↔ metrics of a process."""

from __future__ import annotations

from typing import Final

from penstock.api.process.v1 import process_service_pb2 as pb
from penstock.model.metrics import ProcessMetric, ProcessMetrics
from penstock.wire.codec import Codec

PROCESS_METRICS: Final = Codec(
    ProcessMetrics,
    pb.ListMetricsResponse,
    parts=[Codec(ProcessMetric, pb.Metric)],
    names={"name": "instance_name", "id": "instance_id", "numbers": "metrics"},
    only_in_value=["service"],  # the caller knows which service it called
)
