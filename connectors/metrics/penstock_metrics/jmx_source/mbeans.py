"""Names of MBeans, and which of their attributes are read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_READ: Final = re.compile(rf'(?:[^;\n"]|{_QUOTED}|")+')
_PROPERTY: Final = re.compile(rf'(?:([^=,:*?"\n]+)=({_QUOTED}|[^,="\n]*)|\*)(?:,(?!$)|$)')
_ESCAPE: Final = re.compile(r"\\(.)")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MBeanRead:
    """MBeans of a name or pattern, and what is read of them.

    Attributes:
        name: The name, as JMX writes it.
        wanted: Of each attribute the paths into its value; none: all attributes.
    """

    name: str
    wanted: Mapping[str, Sequence[Path]]

    @property
    def is_pattern(self) -> bool:
        """Whether it may mean several MBeans, or none."""
        return "*" in self.name or "?" in self.name

    def request(self) -> dict[str, Any]:
        """Return the request to Jolokia. An attribute that cannot be read is no reason to get none
        of the others.
        """
        one: dict[str, Any] = {"type": "read", "mbean": self.name, "config": {"ignoreErrors": True}}
        return one | ({"attribute": list(self.wanted)} if self.wanted else {})


def parse_reads(text: str) -> list[MBeanRead]:
    """Return what `mbeans` says: `NAME`, or `NAME|attribute,attribute/path`, separated by `;` or
    line ends.

    Raises:
        ValueError: It says something else.
    """
    found: list[MBeanRead] = []
    for part in _READ.findall(text):
        if not part.strip():
            continue
        name, bar, listed = part.strip().rpartition("|")
        if not bar or '"' in listed:
            name, listed = part.strip(), ""
        parse_object_name(name.strip())
        wanted: dict[str, list[Path]] = {}
        for one in filter(None, map(str.strip, listed.split(","))):
            attribute, *path = one.split("/")
            if not attribute or not all(path):
                raise ValueError(f"{one!r} is no attribute, or `attribute/path`")
            wanted.setdefault(attribute, []).append(tuple(path))
        if any(other.name == name.strip() for other in found):
            raise ValueError(f"{name.strip()[:100]!r} is there twice")
        found.append(MBeanRead(name.strip(), wanted))
    return found


def parse_object_name(name: str) -> tuple[str, dict[str, str]]:
    """Return the domain and the key properties of a name.

    Raises:
        ValueError: It is none.
    """
    domain, colon, listed = name.partition(":")
    found: dict[str, str] = {}
    at = 0
    while at < len(listed):
        match = _PROPERTY.match(listed, at)
        if match is None:
            at = -1
            break
        if match[1] is not None:
            found[match[1]] = _unquoted(match[2])
        at = match.end()
    if not colon or not domain or at <= 0:
        raise ValueError(f"{name[:100]!r} is no name of an MBean: write `domain:key=value,…`")
    return domain, found


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text[1:-1])
