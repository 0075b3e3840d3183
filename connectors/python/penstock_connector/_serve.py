"""The process."""

from __future__ import annotations

from typing import Any

from penstock_connector._connector import Connector


def serve(*connectors: type[Connector[Any]], name: str = "", version: str = "0.0.0") -> None:
    """Serve connectors until the host ends."""
    raise NotImplementedError
