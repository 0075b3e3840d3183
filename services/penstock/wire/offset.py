"""penstock.api.offset.v1 ↔ claims of tasks, the history of offsets, and the progress of a rewind.

Offsets by partition id are in `record`: a commit may have ten thousand of them.
"""

from __future__ import annotations

from typing import Final

from penstock.api.offset.v1 import offset_service_pb2 as pb
from penstock.model.offset import Claim, OffsetChange, OffsetVersion, RewindProgress
from penstock.wire.codec import Codec
from penstock.wire.connector import PREPARED
from penstock.wire.record import OFFSET

CLAIM: Final = Codec(Claim, pb.ClaimTaskResponse, parts=[PREPARED], names={"number": "claim"})

OFFSET_VERSION: Final = Codec(OffsetVersion, pb.OffsetVersion, parts=[OFFSET])

OFFSET_CHANGE: Final = Codec(
    OffsetChange, pb.OffsetChange, parts=[OFFSET], only_in_message=["after_written_at"]
)

REWIND_PROGRESS: Final = Codec(RewindProgress, pb.RewindOffsetsResponse, parts=[OFFSET_CHANGE])
