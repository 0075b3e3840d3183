"""What a source and a sink have in common: a name, a typed configuration, words for people."""

from __future__ import annotations

import threading
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Generic, TypeVar

from penstock_connector._errors import ConnectorError
from penstock_connector._metrics import Metrics


class ApplyAction(IntEnum):
    """What happened to a connector. Numbers equal penstock.api.connector.v1.ApplyAction."""

    CREATE = 1
    UPDATE = 2
    DELETE = 3
    RESET = 4


@dataclass(frozen=True)
class NoConfig:
    """The configuration of a connector that has no keys."""


C = TypeVar("C")


class Connector(Generic[C]):
    """A connector of any kind. `class Mine(Source[MyConfig])` sets `config_type` by itself.

    Attributes:
        name: Unique in the plugin; what `connector.class` says in a configuration.
        aliases: Other names that configurations may use.
        title: One line for people; the first line of the docstring when empty. The rest of the
            docstring is the description.
        config_type: A frozen dataclass; its fields are the configuration keys (see `key`).
        config: The values the user gave; set by `init`.
        metrics: Numbers of this task that people see: `add` counts, `set` is for values.
        stopping: Set when the task is ending. Long waits must end when it is.
    """

    name: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    title: ClassVar[str] = ""
    config_type: ClassVar[type] = NoConfig

    config: C

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "config_type" in cls.__dict__:
            return
        for parent in getattr(cls, "__orig_bases__", ()):
            first = next(iter(typing.get_args(parent)), None)
            if isinstance(first, type):
                cls.config_type = first

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.metrics = Metrics()

    @classmethod
    def validate(cls, config: C) -> list[ConnectorError]:
        """Return what is wrong with a configuration whose values all have the right type.

        Pure: it opens no file and no connection.
        """
        return []

    @classmethod
    def check(cls, config: C) -> None:
        """Try whether the outside can be reached and allows what is needed; raise if not."""

    @classmethod
    def apply_action(
        cls, config: C, action: ApplyAction, *, last: C | None = None
    ) -> Sequence[str]:
        """Set up, change or remove what the connector owns outside; return what was done, one line
        each. Idempotent. An error of DELETE is tried again for some minutes: tasks may be ending.

        Args:
            config: The configuration, of DELETE the last one.
            action: What happened to the connector.
            last: Of UPDATE the configuration that was applied last, to remove what only that one
                has; None where it is not known, or cannot be read any more.
        """
        return ()

    def init(self, config: C) -> None:
        """Take the configuration. Comes first, once."""
        self.config = config

    def close(self) -> None:
        """Let go of everything. Comes last, once, even after an error."""
