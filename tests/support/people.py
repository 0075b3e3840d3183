"""Persons of tests, and what each may do: one for each level, and one for none."""

from __future__ import annotations

from typing import Any

GRANTS: dict[str, list[Any]] = {
    "vera": ["viewer"],
    "otto": [{"role": "operator", "connectors": "orders-.*"}],
    "edda": [{"role": "editor", "connectors": "orders-.*"}],
    "adam": ["admin"],
    "nick": [],
}
