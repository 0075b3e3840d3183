"""One step of a transform chain, fitted to one schema: what the engine does to a batch of rows.

A row that a step cannot change is set apart: it leaves the batch with a diagnostic, and its
neighbours go on. In SQL, the engine evaluates `risky` expressions one row at a time and sets apart
the rows that fail; a kernel that can fail on a row has `attempt`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from penstock.model.errors import Diagnostic

ROW: Final = "penstock row"
"""Column with the number of a row in its slot, in chains that can set rows apart. A name with a
space: no source that follows the naming of reserved columns makes it."""

SetApart: TypeAlias = tuple[int, Diagnostic]
"""A row that was set apart, by its number in the slot (-1: not known), and why."""


@runtime_checkable
class Attempting(Protocol):
    """A kernel that sets rows apart."""

    def attempt(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[SetApart]]:
        """Return the rows that could be changed, and the others by the number in `ROW`."""


@dataclass(frozen=True, slots=True)
class Step:
    """A condition and a projection, as Spark SQL texts; or, with neither, a kernel alone.

    `where`: rows for which it is true are kept. `select`: (column name, SQL expression) in order;
    None keeps all columns.
    `kernel`: an Arrow kernel of the same meaning, or None. It must be picklable, and a property
    test must show that it equals the SQL: then a chain of kernels runs without crossing into the
    JVM.
    `risky`: columns of `select` whose expressions can fail on a row. `risky_where`: so can `where`.
    `failure`: what is said of a row that they fail on.
    `meanings`: of the last step of a chain, columns whose values mean what their type cannot tell
    (`penstock.model.column_meaning`), all of them; `labels`: metadata of the rows' schema.
    """

    where: str | None = None
    select: tuple[tuple[str, str], ...] | None = None
    kernel: Callable[[pa.RecordBatch], pa.RecordBatch] | None = field(default=None, compare=False)
    risky: frozenset[str] = frozenset()
    risky_where: bool = False
    failure: Diagnostic | None = None
    meanings: tuple[tuple[str, str], ...] | None = None
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def sets_apart(self) -> bool:
        """Whether rows can fail in it alone, and leave the others in peace."""
        return bool(self.risky) or self.risky_where or isinstance(self.kernel, Attempting)

    @property
    def only_kernel(self) -> bool:
        """Whether there is no SQL of the same meaning."""
        return self.where is None and self.select is None and self.kernel is not None


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
