"""What a request may bring: JSON, so large, so deep, within so much time."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from penstock.model.errors import ConfigError, RetriableError

MOST: Final = 4 << 20
"""Bytes. A configuration has at most 512 KiB; offsets of many partitions come in several requests.
More would let a few clients take the memory (invariant 12)."""

DEEPEST: Final = 100
"""Levels of nesting. Offsets have a few; what goes on for ever exhausts a parser's stack."""

WITHIN: Final = 30.0
"""Seconds from the first byte of a request to the last of its body."""


async def read(request: Request) -> bytes:
    """Return the body of a request.

    Raises:
        ConfigError: `http.too_large`.
        RetriableError: `http.slow`.
    """
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > MOST:
        raise _too_large()
    found = bytearray()
    try:
        async with asyncio.timeout(WITHIN):
            async for part in request.stream():
                found += part
                if len(found) > MOST:
                    raise _too_large()
    except TimeoutError:
        raise RetriableError(
            "http.slow", f"the body did not come within {WITHIN:g} s", fix="Send it at once."
        ) from None
    return bytes(found)


async def _json(request: Request) -> Any:
    """Return the value that a body has; None for an empty one."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json")
    if kind and not is_json:
        raise _foreign(kind)
    body = await read(request)
    if not body.strip():
        return None
    if not is_json:  # a page of another site may send a body without a type, but none of JSON's
        raise _foreign("none")
    return parsed(body)


def _foreign(kind: str) -> ConfigError:
    return ConfigError(
        "http.content_type",
        f"a body of type {kind[:100]} is not understood",
        fix="Send JSON, and say so: Content-Type: application/json.",
    )


def parsed(body: bytes) -> Any:
    """Return the value of a JSON text. Numbers keep the text that they were written in.

    Raises:
        ConfigError: `http.not_json`.
    """
    try:
        value = json.loads(body, parse_int=Number, parse_float=Number, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        # the error's own text names a place, and no content
        what = "it is too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise _not_json(what) from None
    if _HALVES.search(body):
        _refuse_halves(value)
    if deeper(value, DEEPEST):
        raise ConfigError(
            "http.not_json", f"the body has more than {DEEPEST} levels", fix="Send a flatter one."
        )
    return value


def _refuse_halves(value: Any) -> None:
    """Refuse half a character, which JSON can name and no text can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _not_json("it has half a character") from None


def _not_json(what: str) -> ConfigError:
    return ConfigError("http.not_json", f"the body is not JSON: {what}", fix="Send a JSON object.")


_HALVES: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""May begin half a character (a surrogate): most bodies have none, and are not looked at again."""


class Number(str):
    """A number as it was written: `1.0` is not `1` in a configuration, which is text."""

    __slots__ = ()

    def value(self) -> int | float:
        """Return what it means.

        Raises:
            ConfigError: `http.not_json`: no number that is kept is so large.
        """
        try:
            return int(self)
        except ValueError:
            number = float(self)
        if not math.isfinite(number):
            raise _not_json("a number is too large") from None
        return number


def plain(value: Any) -> Any:
    """Return a value whose numbers are numbers."""
    match value:
        case Number():
            return value.value()
        case list():
            return [plain(one) for one in value]
        case dict():
            return {key: plain(one) for key, one in value.items()}
    return value


def objects(value: Any, what: str) -> Mapping[str, Any]:
    """Return a JSON object.

    Raises:
        ConfigError: `http.not_an_object`.
    """
    if not isinstance(value, dict):
        raise ConfigError(
            "http.not_an_object",
            f"{what} is {_kind(value)}",
            fix=f"Send {what} as a JSON object.",
        )
    return value


def deeper(value: Any, levels: int) -> bool:
    """Tell whether a value has more levels of nesting than so many."""
    now = [value]
    for _ in range(levels):
        now = [
            inner
            for one in now
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not now:
            return False
    return any(isinstance(one, dict | list) for one in now)


def _kind(value: Any) -> str:
    names = {type(None): "missing", list: "a list", bool: "a boolean", Number: "a number"}
    return names.get(type(value), "a text")


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


def _too_large() -> ConfigError:
    return ConfigError(
        "http.too_large",
        f"the body has more than {MOST} bytes",
        fix="Send less: large texts of a configuration belong into files, many offsets into "
        "several requests.",
    )


Json = Annotated[Any, Depends(_json)]
"""The JSON body of a request, as a parameter of a route."""
