"""Markdown of the reference pages: tables, keys, text that shows as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.model.config_def import ConfigKey, format_default

_CODE: Final = re.compile(r"(`+[^`]*`+)")
_SPECIAL: Final = re.compile(r"([*<>\[\]]|(?<!\w)_|_(?!\w))")
_CODE_WITH_BAR: Final = re.compile(r"`([^`\n]*&#124;[^`\n]*)`")

_TIMES: Final = ((86_400, "d"), (3600, "h"))
_UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def page(title: str, *parts: str) -> str:
    """Return a page. It says how it is written, because nothing else shows it in the repository."""
    note = "<!-- Written by `PYTHONPATH=deploy/docs python -m reference`; do not edit. -->"
    text = "\n".join((f"# {title}", note, "", *(f"{part.rstrip()}\n" for part in parts)))
    return _CODE_WITH_BAR.sub(lambda found: f"<code>{_escape(found[1])}</code>", text)


def _escape(text: str) -> str:
    """Escape text within an HTML tag: in code of Markdown, an escaped bar would be seen."""
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("*", "&#42;")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. A bar within a cell is escaped; line ends become spaces."""
    lines = [head, ["---"] * len(head), *rows]
    text = "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)
    return re.sub(r"\|  (?=\|)", "| ", text)  # of an empty cell


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "&#124;")


def code(text: str) -> str:
    """Return text as code; nothing for empty text."""
    return f"`{text}`" if text else ""


def codes(texts: Iterable[str]) -> str:
    """Return texts as code, separated by commas."""
    return ", ".join(map(code, texts))


def plain(text: str) -> str:
    """Escape what Markdown or HTML would take for markup, outside of code."""
    parts = _CODE.split(text)
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def default_text(key: ConfigKey) -> str:
    """Return the default of a key in the form in which it is written: 48MiB, 25ms, 30s."""
    if key.type == "duration" and key.default:
        seconds: float = key.default
        for factor, unit in _TIMES:
            if seconds % factor == 0:
                return f"{seconds / factor:g}{unit}"
        return f"{seconds * 1000:g}ms" if seconds < 1 else f"{seconds:g}s"
    if key.type == "size" and key.default:
        for bytes_, name in _UNITS:
            if key.default % bytes_ == 0:
                return f"{key.default // bytes_}{name}"
    return format_default(key)


def key_rows(keys: Iterable[ConfigKey], prefix: str = "") -> Iterable[tuple[str, str, str, str]]:
    """Yield the row of each key: name, type, default, meaning."""
    for key in keys:
        meaning = plain(key.doc)
        missing = [choice for choice in key.choices if choice and f"`{choice}`" not in meaning]
        if missing:
            meaning = f"{meaning} One of {codes(choice for choice in key.choices if choice)}."
        if key.no_effect:
            meaning = f"{meaning} It may have no effect: {plain(key.no_effect)}."
        default = "required" if key.required else code(default_text(key))
        yield code(f"{prefix}{key.name}"), key.type, default, meaning.strip()


KEY_HEAD: Final = ("key", "type", "default", "meaning")


def key_table(keys: Iterable[ConfigKey], prefix: str = "") -> str:
    """Return the table of keys."""
    return table(KEY_HEAD, key_rows(keys, prefix))
