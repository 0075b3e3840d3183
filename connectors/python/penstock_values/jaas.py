"""Who logs in, as Kafka's clients in Java take it: the key `sasl.jaas.config`.

parse_jaas('org.apache…PlainLoginModule required username="ada" password="x";').options
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_LOGIN: Final = re.compile(
    r"\s*([\w.]+)\s+(required|requisite|sufficient|optional)\b(.*);\s*", re.DOTALL
)
_OPTION: Final = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s"';]+))""")


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """A login.

    Attributes:
        module: The class of Java, without its package.
        options: Its options.
    """

    module: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> JaasLogin:
    """Return the login of a text.

    Raises:
        ValueError: it has another form; says how the text continues after its name.
    """
    found = _LOGIN.fullmatch(text)
    if found is None:
        raise ValueError("is not of the form that Java's clients read")
    options, at, rest = dict[str, str](), 0, found[3]
    while rest[at:].strip():
        option = _OPTION.match(rest, at)
        if option is None:
            raise ValueError('has an option that is not name="value"')
        quoted, single, plain = option[2], option[3], option[4]
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else single or plain or ""
        options[option[1]] = value
        at = option.end()
    return JaasLogin(found[1].rpartition(".")[2], options)
