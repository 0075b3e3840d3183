"""What a store answers in XML: elements with text, and nothing else that XML can do.

No entity but the five of XML and numbers is known, and no document type: what a store that is none
of ours sends is refused, before it can grow or reach for anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from penstock_connector import RetriableError

_DEPTH_MOST: Final = 20


@dataclass(slots=True)
class Element:
    """An element: its name without a namespace, its children, and its own text."""

    name: str
    children: list[Element] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def all(self, name: str) -> Iterator[Element]:
        """Yield the children of a name."""
        return (child for child in self.children if child.name == name)

    def text(self, name: str) -> str:
        """Return the text of the first child of a name; empty when there is none."""
        return next(("".join(child.said) for child in self.all(name)), "")


def parse(data: bytes) -> Element:
    """Return the root of an answer.

    Raises:
        RetriableError: `s3.unavailable`: it is no such answer.
    """
    root = Element("")
    stack = [root]

    def start(name: str, attributes: object) -> None:
        del attributes
        element = Element(name.rpartition(":")[2])
        if len(stack) > _DEPTH_MOST:
            raise expat.ExpatError("too deep")
        stack[-1].children.append(element)
        stack.append(element)

    def said(text: str) -> None:
        stack[-1].said.append(text)

    def refuse(*_: object) -> None:
        raise expat.ExpatError("a document type")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _name: stack.pop()
    parser.CharacterDataHandler = said
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise RetriableError(
            "s3.unavailable",
            f"the answer is not of a store: {error}",
            fix="Check `s3.endpoint`; is something else listening there?",
            config_path="s3.endpoint",
        ) from error
    return root.children[0]
