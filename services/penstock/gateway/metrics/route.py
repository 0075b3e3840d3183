"""`/metrics`: what Prometheus scrapes, of the whole cluster. Nothing is counted here: numbers of
tasks are those that workers report to the leader anyway, those of processes are asked of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import chain
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from penstock.gateway.access.guard import Sender
from penstock.gateway.clients import Services
from penstock.gateway.metrics.cluster_metrics import measured, measured_processes

routes = APIRouter(tags=["cluster"])

_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}


class _Collected:
    """Families that were measured already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._families


@routes.get("/metrics", responses={200: {"content": _TEXT, "description": "Text of Prometheus."}})
async def metrics(asks: Services, sender: Sender) -> Response:
    """Tell the states and numbers of connectors, tasks, workers and processes."""
    cluster, statuses, answers = await asyncio.gather(
        asks.scheduler.cluster(), asks.scheduler.statuses(""), asks.processes.numbers()
    )
    families = chain(measured(cluster, sender.sees(statuses)), measured_processes(answers))
    text = await asyncio.to_thread(written, families)  # may be long
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def written(families: Iterable[Metric]) -> bytes:
    """Return the text of families."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(families))
    return generate_latest(registry)
