"""Traces that continue in the called service, through the metadata key `traceparent` of the W3C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from penstock.model.errors import PenstockError

TRACEPARENT: Final = "traceparent"

_TRACER: Final = trace.get_tracer("penstock")


def _exports_traces() -> bool:
    """Return whether spans go anywhere. Without that, none is made: one costs 20 µs, and a
    micro-batch would have eight.
    """
    is_proxy = isinstance(_TRACER, trace.ProxyTracer)
    return not (is_proxy and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider))


def trace_headers() -> dict[str, str]:
    """Return the headers of the current trace; empty when there is none."""
    carrier: dict[str, str] = {}
    if trace.get_current_span().get_span_context().is_valid:
        propagate.inject(carrier)
    return carrier


def trace_arguments(metadata: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return the `metadata` argument of a call: its metadata with the current trace."""
    complete = (*metadata, *trace_headers().items())
    return {"metadata": complete} if complete else {}


@contextmanager
def span(name: str, kind: SpanKind = SpanKind.INTERNAL, **attributes: str | int) -> Iterator[Span]:
    """Run the body in a span of the current trace. An error sets its status."""
    if not _exports_traces():
        yield trace.get_current_span()
        return
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
            one.set_status(error_status(error))
            raise


@contextmanager
def server_span(name: str, metadata: Any) -> Iterator[Span]:
    """Run the body in a span that continues the trace of a caller."""
    headers = {key: value for key, value in metadata or () if isinstance(value, str)}
    if TRACEPARENT not in headers and not _exports_traces():
        yield trace.INVALID_SPAN
        return
    with _TRACER.start_as_current_span(
        name,
        context=propagate.extract(headers) if TRACEPARENT in headers else None,
        kind=SpanKind.SERVER,
        record_exception=False,
        set_status_on_exception=False,
    ) as one:
        try:
            yield one
        except Exception as error:
            one.set_status(error_status(error))
            raise


def start_trace(name: str, **attributes: str | int) -> Span:
    """Start the root span of a new trace, for work that several functions share.

    The caller ends the span. `use_span` creates spans below it.
    """
    return _TRACER.start_span(name, context=Context(), attributes=attributes)


def use_span(root: Span) -> AbstractContextManager[Span]:
    """Make a span the parent of the spans that start in the body."""
    return trace.use_span(
        root, end_on_exit=False, record_exception=False, set_status_on_exception=False
    )


def error_status(error: BaseException) -> Status:
    """Return the span status of an error: only its code, since its text may contain secrets."""
    code = error.code if isinstance(error, PenstockError) else type(error).__name__
    return Status(StatusCode.ERROR, code)
