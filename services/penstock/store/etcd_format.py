"""What the key `format` in etcd says of the state of a cluster: `1 base=1000000042`.

- the version of the stored formats
- `base`: what revisions of the store are ahead of etcd's own. Epochs are revisions, and an etcd
  that was built anew begins with small ones, which topics and sinks refuse as old. A restore sets a
  base that is past every epoch that they may have seen.
- `restoring`: the checksum of a backup that is being restored. Only a part of the state is there.

A version that knows only the number refuses the others as newer: it would give old epochs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import RetriableError
from penstock.store.port import FORMAT, newer_format

FORMAT_KEY: Final = "format"
"""The key, below the prefix of the cluster."""

_FORMAT: Final = re.compile(r"(\d+)(?: base=(\d+))?(?: restoring=([0-9a-f]+))?")


@dataclass(frozen=True, slots=True)
class EtcdFormat:
    """The stored format. `revision_base` is 0 in a cluster that was never restored."""

    revision_base: int = 0
    restoring: str = ""

    def encode(self) -> bytes:
        """Return the value of the key."""
        base = f" base={self.revision_base}" if self.revision_base else ""
        restoring = f" restoring={self.restoring}" if self.restoring else ""
        return f"{FORMAT}{base}{restoring}".encode()

    def refuse_restoring(self, prefix: str) -> None:
        """Raise where only a part of a backup is there.

        Raises:
            RetriableError: `store.restoring`.
        """
        if self.restoring:
            raise RetriableError(
                "store.restoring",
                f"a backup is being restored under {prefix} in etcd: only a part of it is there",
                fix="Wait until `penstock restore` has ended. If it was interrupted, run it again "
                "with the same file.",
            )


def decode_format(value: bytes, prefix: str) -> EtcdFormat:
    """Return the format in a value of the key.

    Raises:
        ConfigError: `store.newer`: a newer version has written it.
    """
    found = value.decode(errors="replace")
    match = _FORMAT.fullmatch(found)
    if match is None or int(match[1]) > FORMAT:
        raise newer_format(f"what is under {prefix} in etcd", found[:20])
    return EtcdFormat(int(match[2] or 0), match[3] or "")
