"""The wall clock jumps: nothing that decides who owns a task, or how long to wait, reads it."""

import ast

import pytest

from support.checkout import ROOT, name_of, python_files, syntax_of

DECIDING = ("cluster", "etcd", "plugin", "rpc", "scheduler", "spark", "worker")
WALL = (".datetime.now", ".datetime.utcnow", ".time.time", ".time.time_ns")


def walls(tree: ast.AST) -> list[str]:
    """Return where a wall clock is named."""
    names = (ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute))
    imported = (
        f"{n.module}.{alias.name}"
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom)
        for alias in n.names
    )
    return [name for name in (*names, *imported) if f".{name}".endswith(WALL)]


@pytest.mark.parametrize("room", DECIDING)
def test_no_decision_of_a_cluster_reads_a_wall_clock(room):
    files = list(python_files(ROOT / "services" / "penstock" / room))
    assert files
    found = {name_of(file): walls(syntax_of(file)) for file in files}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "code", ["import time\ntime.time()", "from time import time", "datetime.datetime.now()"]
)
def test_a_wall_clock_goes_red(code):
    assert walls(ast.parse(code))
