"""A trace that goes on in whoever is called: by the W3C's `traceparent`, as metadata."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from penstock.model.errors import PenstockError

PARENT: Final = "traceparent"

_TRACER: Final = trace.get_tracer("penstock")


def carried() -> dict[str, str]:
    """Return what carries the present trace on; nothing when there is none."""
    carrier: dict[str, str] = {}
    if trace.get_current_span().get_span_context().is_valid:
        propagate.inject(carrier)
    return carrier


def with_trace(metadata: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return the arguments of a call for its metadata, with the present trace in it."""
    whole = (*metadata, *carried().items())
    return {"metadata": whole} if whole else {}


@contextmanager
def span(name: str, kind: SpanKind = SpanKind.INTERNAL, **attributes: str | int) -> Iterator[Span]:
    """Have a part of the present trace while the body runs; an error ends it with its code."""
    with _TRACER.start_as_current_span(
        name,
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as one:
        try:
            yield one
        except Exception as error:
            one.set_status(failed(error))
            raise


def begun(name: str, **attributes: str | int) -> Span:
    """Begin a trace of its own, of work that goes through several hands. Whoever ends the work ends
    it; `within` makes parts of it.
    """
    return _TRACER.start_span(name, context=Context(), attributes=attributes)


def within(whole: Span) -> AbstractContextManager[Span]:
    """Have what begins while the body runs be a part of this."""
    return trace.use_span(
        whole, end_on_exit=False, record_exception=False, set_status_on_exception=False
    )


@contextmanager
def served(name: str, metadata: Any) -> Iterator[Span]:
    """Go on with the trace of a caller while the body runs."""
    found = {key: value for key, value in metadata or () if isinstance(value, str)}
    with _TRACER.start_as_current_span(
        name,
        context=propagate.extract(found) if PARENT in found else None,
        kind=SpanKind.SERVER,
        record_exception=False,
        set_status_on_exception=False,
    ) as one:
        try:
            yield one
        except Exception as error:
            one.set_status(failed(error))
            raise


def failed(error: BaseException) -> Status:
    """Return the status of a part that failed: its code, for its text may hold anything."""
    code = error.code if isinstance(error, PenstockError) else type(error).__name__
    return Status(StatusCode.ERROR, code)
