"""penstock.api.error.v1 ↔ `penstock.model.errors`."""

from __future__ import annotations

from typing import Final

from penstock.api.error.v1 import diagnostic_pb2 as pb
from penstock.model.errors import Diagnostic
from penstock.wire.codec import Codec

DIAGNOSTIC: Final = Codec(Diagnostic, pb.Diagnostic, names={"retry_after_s": "retry_after"})
