"""Whoever meets an error is told what to do: each that the product makes has a fix.

Left out are defects (InternalError), whose fix is ours.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from penstock.model import errors

ROOT = Path(__file__).resolve().parents[2] / "services" / "penstock"
MADE = {
    name
    for name, one in vars(errors).items()
    if isinstance(one, type) and issubclass(one, errors.PenstockError)
} - {"PenstockError", "InternalError"}


def mute(source: str) -> Iterator[str]:
    """Yield the codes of errors that are made without a fix."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in MADE
            and not {"fix", None} & {keyword.arg for keyword in node.keywords}
            and not any(isinstance(argument, ast.Starred) for argument in node.args)
        ):
            yield ast.unparse(node.args[0]) if node.args else node.func.id


def test_every_error_says_how_to_fix_it():
    found = {
        f"{path.relative_to(ROOT)}: {code}"
        for path in ROOT.rglob("*.py")
        for code in mute(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_one_that_does_not_is_seen():
    assert list(mute('raise ConfigError("a.b", "no")')) == ["'a.b'"]
    assert not list(mute('raise ConfigError("a.b", "no", fix="Say yes.")'))
