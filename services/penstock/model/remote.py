"""A step of a chain that a plugin takes: what it is told, and where it is served."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.model.step import Step


@dataclass(frozen=True, slots=True)
class Remote:
    """A configured transform of a plugin.

    Attributes:
        connector: The transform's name in its plugin.
        config: Its keys.
        path: Where it stands in the connector's configuration.
        instance: The connector.
        address: Where its process listens; empty until it is known.
        credential: What calls must carry.
        stall: Longest time, in seconds, that it may take for a batch.
        tls: How it is reached over TLS, as JSON; empty for not at all.
        version: Versions of its plugin that are allowed; empty for any.
    """

    connector: str
    config: tuple[tuple[str, str], ...] = field(repr=False)
    path: str
    instance: str = ""
    address: str = ""
    credential: str = field(default="", repr=False)
    stall: float = 60.0
    tls: str = field(default="", repr=False)
    version: str = ""

    @property
    def place(self) -> dict[str, Any]:
        """Where it is, as tickets have it."""
        tls = {"tls": json.loads(self.tls)} if self.tls else {}
        return {"address": self.address, "credential": self.credential, **tls}


@dataclass(frozen=True, slots=True)
class RemoteStep(Step):
    """What comes out of it only the plugin knows, once the columns that go in are known: when the
    plan is made. `rest` fits what follows in the chain to the columns that come out; it stays where
    the plan is made.
    """

    remote: Remote = field(kw_only=True)
    rest: Callable[[pa.Schema], tuple[Step, ...]] = field(kw_only=True, compare=False)

    @property
    def sets_apart(self) -> bool:
        """A plugin may refuse any row."""
        return True
