"""Asking a server whether it serves, as every probe does."""

from __future__ import annotations

from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.rpc.channels import open_channel


async def serves(address: str, seconds: float = 1.0) -> bool:
    """Tell whether a server says within some seconds that it serves (`grpc.health.v1`)."""
    async with open_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its stubs name no methods
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=seconds)
        except grpc.aio.AioRpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
