"""Receivers of OTLP over gRPC and HTTP, as a collector is one: they keep the spans, the numbers and
the lines of logs that they are sent.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any, Self

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_pb
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_api
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_api
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as api
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.processes import free_ports
from support.web import Reply, WebServer


@dataclass(frozen=True)
class Number:
    """A data point. Of a histogram `value` is the sum, and `count` how many there were."""

    service: str
    name: str
    attributes: dict[str, Any]
    value: float
    count: int = 0


class Kept:
    """What came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[tuple[str, Span]] = []
        self._numbers: list[Number] = []
        self._lines: list[tuple[str, LogRecord]] = []

    def spans(self) -> list[tuple[str, Span]]:
        """Return what came: the name of the service, and the span."""
        with self._lock:
            return list(self._spans)

    def named(self, name: str) -> list[Span]:
        """Return the spans of a name."""
        return [span for _, span in self.spans() if span.name == name]

    def numbers(self, name: str) -> list[Number]:
        """Return the data points of a name, in the order in which they came."""
        with self._lock:
            return [one for one in self._numbers if one.name == name]

    def all_numbers(self) -> list[Number]:
        """Return all data points."""
        with self._lock:
            return list(self._numbers)

    def lines(self) -> list[tuple[str, LogRecord]]:
        """Return lines of logs, each with the service that sent it."""
        with self._lock:
            return list(self._lines)

    def take_traces(self, request: pb.ExportTraceServiceRequest) -> pb.ExportTraceServiceResponse:
        """Keep spans."""
        with self._lock:
            for resource in request.resource_spans:
                service = _service(resource.resource)
                for scope in resource.scope_spans:
                    self._spans += [(service, span) for span in scope.spans]
        return pb.ExportTraceServiceResponse()

    def take_metrics(self, request: Any) -> Any:
        """Keep the data points of metrics."""
        with self._lock:
            for resource in request.resource_metrics:
                service = _service(resource.resource)
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        self._numbers += _points(service, metric)
        return metrics_pb.ExportMetricsServiceResponse()

    def take_logs(self, request: Any) -> Any:
        """Keep lines."""
        with self._lock:
            for resource in request.resource_logs:
                service = _service(resource.resource)
                for scope in resource.scope_logs:
                    self._lines += [(service, record) for record in scope.log_records]
        return logs_pb.ExportLogsServiceResponse()


class Receiver(Kept):
    """`with Receiver() as receiver`: `environment` is what a process has to know of it."""

    def __init__(self) -> None:
        super().__init__()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        api.add_TraceServiceServicer_to_server(_Taking(self.take_traces), self._server)
        metrics_api.add_MetricsServiceServicer_to_server(_Taking(self.take_metrics), self._server)
        logs_api.add_LogsServiceServicer_to_server(_Taking(self.take_logs), self._server)
        (self.port,) = free_ports(1)

    def __enter__(self) -> Self:
        self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait(10)

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which a process sends everything here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}", **_SOON}


class HttpReceiver(Kept):
    """The same over HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self._ways = {
            "/v1/traces": (pb.ExportTraceServiceRequest, self.take_traces),
            "/v1/metrics": (metrics_pb.ExportMetricsServiceRequest, self.take_metrics),
            "/v1/logs": (logs_pb.ExportLogsServiceRequest, self.take_logs),
        }

    def __enter__(self) -> Self:
        self._server = WebServer()
        self._server.answer = self._take
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which a process sends everything here, soon."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self._server.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            **_SOON,
        }

    def _take(self, asked: Any) -> Reply:
        form, take = self._ways[asked.path]
        is_packed = asked.headers.get("Content-Encoding") == "gzip"
        request: Any = form.FromString(gzip.decompress(asked.body) if is_packed else asked.body)
        kind = {"Content-Type": asked.headers["Content-Type"]}
        return Reply(take(request).SerializeToString(), headers=kind)


_SOON = {
    "OTEL_BSP_SCHEDULE_DELAY": "50",
    "OTEL_BLRP_SCHEDULE_DELAY": "50",
    "OTEL_METRIC_EXPORT_INTERVAL": "200",
}


class _Taking(
    api.TraceServiceServicer, metrics_api.MetricsServiceServicer, logs_api.LogsServiceServicer
):
    def __init__(self, take: Any) -> None:
        self._take = take

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        return self._take(request)


def _points(service: str, metric: Any) -> list[Number]:
    points = []
    for point in getattr(metric, metric.WhichOneof("data")).data_points:
        told = attributes(point.attributes)
        if metric.HasField("histogram"):
            points.append(Number(service, metric.name, told, point.sum, point.count))
        else:
            value = getattr(point, point.WhichOneof("value"))
            points.append(Number(service, metric.name, told, value))
    return points


def _service(resource: Resource) -> str:
    return str(attributes(resource.attributes)["service.name"])


def attributes(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    """Return attributes by name."""
    return {a.key: getattr(a.value, a.value.WhichOneof("value") or "string_value") for a in pairs}


def shown(span: Span) -> dict[str, Any]:
    """Return the attributes of a span."""
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}
