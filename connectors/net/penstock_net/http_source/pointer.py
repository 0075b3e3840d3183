"""Places in a JSON document: pointers of RFC 6901. Pure."""

from __future__ import annotations

from typing import Any, Final

from penstock_connector import ConfigError

MISSING: Final[Any] = object()
"""What a pointer finds where nothing is."""


class Pointer:
    """A place in a document, for instance `/data/items` or `/rows/0`; empty is all of it."""

    def __init__(self, text: str, path: str) -> None:
        if text and not text.startswith("/"):
            raise ConfigError(
                "config.invalid_value",
                f"`{path}` is no JSON pointer: {text!r}",
                fix="Write /name, /outer/inner or /list/0; ~1 is a slash in a name, ~0 a tilde.",
                config_path=path,
                suggestion="/" + text.replace(".", "/"),
            )
        self.text = text
        self._steps = [s.replace("~1", "/").replace("~0", "~") for s in text.split("/")[1:]]

    def of(self, document: Any) -> Any:
        """Return what is there; MISSING where nothing is."""
        found = document
        for step in self._steps:
            match found:
                case dict():
                    found = found.get(step, MISSING)
                case list() if step.isascii() and step.isdigit() and int(step) < len(found):
                    found = found[int(step)]
                case _:
                    return MISSING
        return found


def field_pointer(text: str, path: str) -> Pointer:
    """Return the place of a field in a row: a pointer, or simply its name."""
    if text and not text.startswith("/"):
        text = "/" + text.replace("~", "~0").replace("/", "~1")
    return Pointer(text, path)
