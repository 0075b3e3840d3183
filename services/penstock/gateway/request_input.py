"""The input of a request: JSON in its body, with bounds of size, depth and time; names in its path.

A name may have any character, also `/`, `%` and spaces. A server passes a decoded path, in which
`%2F` in a name cannot be distinguished from a `/` between two parts. So the path is taken as it was
sent and decoded part by part. Within a part `%` and `/` stay encoded for the router, and `PathName`
decodes the value of a parameter.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Path, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.gateway.errors import refusal_response
from penstock.model.errors import ConfigError, RetriableError

MAX_BODY_BYTES: Final = 4 << 20
"""A configuration has at most 512 KiB, and offsets of many partitions can be sent in several
requests. With a larger bound a few clients could use all memory (invariant 12)."""

MAX_DEPTH: Final = 100
"""Levels of nesting. Offsets have a few levels; deep nesting exhausts the stack of a parser."""

BODY_TIMEOUT_S: Final = 30.0
"""Seconds for the body of a request."""


async def read_body(request: Request) -> bytes:
    """Return the body of a request.

    Raises:
        ConfigError: `http.too_large`.
        RetriableError: `http.slow`.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > MAX_BODY_BYTES:
        raise _too_large()
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                found += part
                if len(found) > MAX_BODY_BYTES:
                    raise _too_large()
    except TimeoutError:
        raise RetriableError(
            "http.slow",
            f"the body did not arrive within {BODY_TIMEOUT_S:g} s",
            fix="Send the whole body without pauses.",
        ) from None
    return bytes(found)


async def _read_json(request: Request) -> Any:
    """Return the JSON value of a body; None for an empty body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json")
    if kind and not is_json:
        raise _wrong_content_type(kind)
    body = await read_body(request)
    if not body.strip():
        return None
    if not is_json:  # a page of another site can send a body without a type, but not as JSON
        raise _wrong_content_type("none")
    return parse_json(body)


def _wrong_content_type(kind: str) -> ConfigError:
    return ConfigError(
        "http.content_type",
        f"the content type of the body is {kind[:100]}, expected application/json",
        fix="Send JSON with the header Content-Type: application/json.",
    )


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text. Numbers are `JsonNumber` and keep the text as written.

    Raises:
        ConfigError: `http.not_json`.
    """
    try:
        value = json.loads(
            body, parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        # the text of the error has a position, not the content
        what = "it is nested too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise _not_json(what) from None
    if _SURROGATE.search(body):
        _refuse_lone_surrogates(value)
    if is_deeper(value, MAX_DEPTH):
        raise ConfigError(
            "http.not_json",
            f"the body has more than {MAX_DEPTH} levels of nesting",
            fix="Send a body with fewer levels.",
        )
    return value


def _refuse_lone_surrogates(value: Any) -> None:
    """Refuse half of a surrogate pair: JSON can write it, but UTF-8 cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _not_json("invalid Unicode: lone surrogate") from None


def _not_json(what: str) -> ConfigError:
    return ConfigError("http.not_json", f"the body is not JSON: {what}", fix="Send a JSON object.")


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""An escaped surrogate. Only bodies that have one are checked again."""


class JsonNumber(str):
    """A number as it was written. Values of a configuration are text: `1.0` differs from `1`."""

    __slots__ = ()

    def value(self) -> int | float:
        """Return the number.

        Raises:
            ConfigError: `http.not_json`: it is too large for a float.
        """
        try:
            return int(self)
        except ValueError:
            number = float(self)
        if not math.isfinite(number):
            raise _not_json("a number is too large") from None
        return number


def to_plain(value: Any) -> Any:
    """Return a value in which each JsonNumber is replaced by its number."""
    match value:
        case JsonNumber():
            return value.value()
        case list():
            return [to_plain(one) for one in value]
        case dict():
            return {key: to_plain(one) for key, one in value.items()}
    return value


def require_object(value: Any, what: str) -> Mapping[str, Any]:
    """Return a value that is a JSON object; `what` names it in the error.

    Raises:
        ConfigError: `http.not_an_object`.
    """
    if not isinstance(value, dict):
        raise ConfigError(
            "http.not_an_object",
            f"{what} is {_type_name(value)}, expected an object",
            fix=f"Send {what} as a JSON object.",
        )
    return value


class RequestBody(BaseModel):
    """A request body that is a JSON object. Unknown fields are ignored."""

    model_config = ConfigDict(hide_input_in_errors=True)

    @classmethod
    def read(cls, body: Any) -> Self:
        """Validate a body.

        Raises:
            ConfigError: `http.not_an_object`, `http.not_json`, `http.parameter`.
        """
        fields = to_plain(require_object(body, "the request"))
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            name = ".".join(map(str, first["loc"]))
            raise ConfigError(
                "http.parameter",
                f"`{name}`: {first['msg']}",
                fix="See /openapi.json for the fields of the body.",
            ) from None


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether a value has more than `levels` levels of nesting."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def _type_name(value: Any) -> str:
    names = {type(None): "missing", list: "a list", bool: "a boolean", JsonNumber: "a number"}
    return names.get(type(value), "a string")


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


def _too_large() -> ConfigError:
    return ConfigError(
        "http.too_large",
        f"the body has more than {MAX_BODY_BYTES} bytes",
        fix="Move large texts of a configuration to files; send offsets in several requests.",
    )


JsonBody = Annotated[Any, Depends(_read_json)]
"""A route parameter: the JSON body of the request."""


MAX_PATH_BYTES: Final = 8 << 10
"""Bytes of a path. All valid names are far shorter."""


class ExactPathMiddleware:
    """Decodes the path of a request part by part, so that a router can split it."""

    def __init__(self, app: ASGIApp) -> None:
        """`app` receives the requests."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http":
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            if len(raw) > MAX_PATH_BYTES:
                await refusal_response(414, "http.path", f"the path is too long: {len(raw)} bytes")(
                    scope, receive, send
                )
                return
            try:
                scope = {**scope, "path": decode_path(raw.partition(b"?")[0])}
            except UnicodeDecodeError:
                await refusal_response(400, "http.path", "the path is not UTF-8")(
                    scope, receive, send
                )
                return
        await self._app(scope, receive, send)


def decode_path(raw: bytes) -> str:
    """Return a path whose parts are decoded except for `/` and `%`.

    A slash at the end, which some clients send, is ignored: a slash in a name is encoded.

    Raises:
        UnicodeDecodeError: a part is not UTF-8.
    """
    whole = raw.removesuffix(b"/") or raw
    parts = (unquote_to_bytes(part).decode() for part in whole.split(b"/"))
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def decode_name(part: str) -> str:
    """Return the name that a part of such a path encodes."""
    return part.replace("%2F", "/").replace("%25", "%")


def _decode_part(part: Any) -> str:
    return decode_name(str(part))


PathName = Annotated[str, Path(description="Name, percent-encoded."), AfterValidator(_decode_part)]
"""A path parameter that is a name."""

MAX_NUMBER: Final = (1 << 63) - 1
"""The largest number that the services accept (int64)."""

PathNumber = Annotated[int, Path(ge=0, le=MAX_NUMBER)]
"""A path parameter that is the number of a task or of a version."""
