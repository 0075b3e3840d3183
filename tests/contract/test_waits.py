"""No wait loses a cancellation. `asyncio.wait_for` of Python 3.11 does, when what it waits for
comes in the same moment; a task group then waits for ever for a parent that was never told.
"""

import ast

import pytest

from support.checkout import ROOT, name_of, python_files, syntax_of

FOLDERS = ["services/penstock", *(f"connectors/{name}" for name in ("python", "builtin"))]


def losing(tree):
    """Return where asyncio.wait_for is named, however it was imported."""
    names = (ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    imported = (
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
    return [name for name in (*names, *imported) if name == "asyncio.wait_for"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_waits_by_what_loses_a_cancellation(folder):
    files = list(python_files(ROOT / folder))
    assert files
    found = {name_of(file): losing(syntax_of(file)) for file in files}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize("code", ["asyncio.wait_for(x, 1)", "from asyncio import wait_for"])
def test_such_a_wait_goes_red(code):
    assert losing(ast.parse(code))
