"""What is logged is about a connector, a task, an epoch, wherever it is logged.

with attributed(connector="orders", task="…-0", epoch=7):
    log.info("…")            # also in what is awaited, and in tasks that are made, inside
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_attributes: ContextVar[Mapping[str, str | int] | None] = ContextVar("penstock_log", default=None)


@contextmanager
def attributed(**attributes: str | int) -> Iterator[None]:
    """Attribute what is logged inside: connector, task, epoch, or any other name."""
    token = _attributes.set({**(_attributes.get() or {}), **attributes})
    try:
        yield
    finally:
        _attributes.reset(token)


def attributes_now() -> Mapping[str, str | int]:
    """Return what a line that is logged now is about."""
    return _attributes.get() or {}
