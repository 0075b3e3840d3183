"""Tells the numbers of the process that a server runs in."""

# ruff: noqa: N802, ARG002 - names and arguments of methods are those of the wire

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.api.process.v1 import process_service_pb2 as pb
from penstock.api.process.v1 import process_service_pb2_grpc as grpc_api
from penstock.model.metrics import ReadNumbers
from penstock.rpc.server import Server
from penstock.wire.process import numbers_to_proto


class ProcessService(grpc_api.ProcessServiceServicer):
    """Serves `penstock.api.process.v1.ProcessService`."""

    def __init__(self, name: str, id_: str, parts: Sequence[ReadNumbers]) -> None:
        """`name` and `id_` are those of the instance. `parts` tell their numbers whenever they are
        asked for; more of them may come.
        """
        self._name, self._id, self._parts = name, id_, parts

    async def ListNumbers(
        self, request: pb.ListNumbersRequest, context: Any
    ) -> pb.ListNumbersResponse:
        """Tell them."""
        numbers = (number for read in self._parts for number in read())
        return numbers_to_proto(self._name, self._id, numbers)


def tell_numbers(server: Server, name: str, id_: str, parts: Sequence[ReadNumbers]) -> None:
    """Let a server tell the numbers of the parts of its process, too. Before it starts."""
    server.add(grpc_api.add_ProcessServiceServicer_to_server, ProcessService(name, id_, parts))
