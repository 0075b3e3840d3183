"""The services that requests are carried out by, and how a route gets hold of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from penstock.client import ConfigClient, OffsetClient, SchedulerClient
from penstock.gateway.everywhere import Workers
from penstock.gateway.processes import Processes


@dataclass(frozen=True, slots=True)
class Asks:
    """Clients of the services; whoever made them closes them."""

    config: ConfigClient
    offset: OffsetClient
    scheduler: SchedulerClient
    workers: Workers
    processes: Processes


def _asks(request: Request) -> Asks:
    asks: Asks = request.app.state.asks
    return asks


Services = Annotated[Asks, Depends(_asks)]
"""What a route asks, as a parameter of it."""
