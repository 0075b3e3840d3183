"""ProcessClient: what a process tells about itself, whatever service it is of."""

from __future__ import annotations

from penstock.api.process.v1 import process_service_pb2 as pb
from penstock.api.process.v1 import process_service_pb2_grpc as grpc_api
from penstock.client.call import DEADLINE, Caller
from penstock.model.metrics import ProcessNumbers
from penstock.rpc.channels import Dial, open_channel
from penstock.rpc.route import Place
from penstock.wire.process import numbers_from_proto


class ProcessClient(Caller):
    """One process of a service. Its method may raise PenstockError."""

    def __init__(
        self, service: str, place: Place, deadline: float = DEADLINE, dial: Dial = open_channel
    ) -> None:
        """`place` is `unix:/path` or `host:port`; see `Caller`."""
        super().__init__(place, deadline, dial)
        self._service = service
        self._stub = grpc_api.ProcessServiceStub(self._channel)

    async def numbers(self) -> ProcessNumbers:
        """Return what it has counted, and what it measures now."""
        request = pb.ListNumbersRequest()
        answer = await self._call("process.numbers", self._stub.ListNumbers, request)
        return numbers_from_proto(self._service, answer)
