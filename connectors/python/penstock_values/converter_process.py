"""A converter of a plugin, as the host tells it to the connector whose messages it converts.

A connector that has the keys `key.converter` and `value.converter` may name a plugin's converter
there. The host starts its process, and gives the connector one key in place of the converter's:
`value.converter.penstock.process`. No user may set it: it says who is called with the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

PROCESS: Final = "penstock.process"
"""The key, after `value.converter.`."""

CONVERTER_KEYS: Final = ("key.converter", "value.converter")
"""The keys that may name one."""


@dataclass(frozen=True, slots=True)
class ConverterProcess:
    """A configured converter, and where its process is.

    Attributes:
        address: `unix:/path` or `host:port`.
        connector: The converter's name in its plugin.
        instance: The name of the connector whose messages it converts.
        config: Its keys.
        timeout_s: Timeout of a call, in seconds.
        credential: That of calls; empty for a plugin that the host did not start.
        tls: PEM texts `ca`, `certificate`, `key`, and `server_name`; None for no TLS.
    """

    address: str
    connector: str
    instance: str
    timeout_s: float
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    credential: str = field(default="", repr=False)
    tls: Mapping[str, str] | None = field(default=None, repr=False)

    @classmethod
    def from_json(cls, text: str) -> ConverterProcess:
        """Return what `to_json` wrote."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Return it as a text."""
        return json.dumps(asdict(self))
