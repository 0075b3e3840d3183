"""Bodies of responses, as models that are also those of the OpenAPI document; bodies of errors.

`routes/bodies.py` has those of Kafka Connect's routes, `v1/bodies.py` those of Penstock's. A field
that a response does not set is left out of its body; a field that is set to None is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeVar

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, RootModel

Statuses: TypeAlias = dict[int | str, dict[str, Any]]
_T = TypeVar("_T")


class ResponseBody(BaseModel):
    """A response body."""

    # one of the values may be a secret (invariant 9)
    model_config = ConfigDict(hide_input_in_errors=True)

    def to_json(self) -> Any:
        """Return the body as JSON values."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    def respond(
        self, headers: Mapping[str, str] | None = None, *, status: int = 200
    ) -> JSONResponse:
        """Return the response with this body."""
        return JSONResponse(self.to_json(), status, headers)


class ResponseValue(RootModel[_T], ResponseBody):
    """A response body that is a list, or an object by names."""


class Finding(ResponseBody):
    """An error or a warning about a configuration."""

    message: str
    code: str
    config_path: str | None = None
    fix: str | None = None
    suggestion: str | None = None
    detail: str | None = None


class Failure(ResponseBody):
    """An error: the two fields of Kafka Connect, and more."""

    error_code: int
    message: str
    code: str = Field(description="Stable identifier of the error, such as config.missing.")
    config_path: str | None = None
    fix: str | None = None
    suggestion: str | None = None
    detail: str | None = None
    errors: list[Finding] | None = None


FAILURES: Final = (400, 401, 403, 404, 405, 408, 409, 413, 414, 415, 429, 500, 503)
"""Statuses that every route may answer with."""


def responses(status: int, model: Any = None, *also: int) -> Statuses:
    """Return the successful responses of a route, for the document."""
    good: dict[str, Any] = {"model": model} if model is not None else {}
    return dict.fromkeys((status, *also), good)


def line_responses() -> Statuses:
    """Return the successful response of a route that streams JSON lines."""
    return {200: {"content": {"application/x-ndjson": {}}}}


def error_responses() -> Statuses:
    """Return the error responses of every route."""
    return {code: {"model": Failure} for code in FAILURES}


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return the request body of a route."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    inner = schema.pop("$defs", {})
    for name, definition in inner.items():
        schema = _inline(schema, f"#/components/schemas/{name}", definition)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _inline(schema: Any, reference: str, definition: Any) -> Any:
    match schema:
        case {"$ref": found} if found == reference:
            return definition
        case dict():
            return {key: _inline(one, reference, definition) for key, one in schema.items()}
        case list():
            return [_inline(one, reference, definition) for one in schema]
    return schema
