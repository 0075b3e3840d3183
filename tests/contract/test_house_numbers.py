"""The sizes and names that keep the house readable."""

import ast
import statistics
from fnmatch import fnmatch

import pytest

from support.checkout import (
    PRODUCT,
    ROOT,
    name_of,
    product_files,
    python_files,
    syntax_of,
)
from support.checkout import test_files as files_of_tests

TOP_LEVEL = {
    "pyproject.toml",
    "README.md",
    "proto",
    "services",
    "connectors",
    "deploy",
    "tests",
    "buf.yaml",
}
VAGUE = {"common", "util", "utils", "helper", "helpers", "base", "manager", "misc"}
ROOMS = ("penstock", "penstock_connector", "penstock_builtin", "penstock_databases", "penstock_net")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def body_lines(function: Function) -> int:
    """Lines from the first statement to the last, the docstring not counted."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def too_long(tree: ast.AST, limit: int = 40) -> list[str]:
    return [f"{f.name} has {body_lines(f)} lines" for f in functions(tree) if body_lines(f) > limit]


def own_imports(tree: ast.AST) -> int:
    nodes = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = (name for name in nodes if not name.startswith("penstock.api."))  # generated: no room
    return sum(name.split(".")[0] in ROOMS for name in ours)


def lines(file) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def test_no_product_file_is_longer_than_500_lines():
    assert [name_of(f) for f in product_files() if lines(f) > 500] == []


def test_no_test_file_is_longer_than_800_lines():
    assert [name_of(f) for f in files_of_tests() if lines(f) > 800] == []


def test_no_function_has_more_than_40_lines():
    found = {name_of(file): too_long(syntax_of(file)) for file in product_files()}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(("count", "red"), [(40, False), (41, True)])
def test_the_rule_counts_lines_of_the_body_and_not_of_the_docstring(count, red):
    body = "\n".join(f"    x = {n}" for n in range(count))
    tree = ast.parse(f'def f():\n    """One.\n\n    Two.\n    """\n{body}\n')
    assert bool(too_long(tree)) is red


def test_the_median_function_has_at_most_8_lines():
    sizes = [body_lines(f) for file in product_files() for f in functions(syntax_of(file))]
    assert statistics.median(sizes) <= 8


def test_no_file_has_more_than_12_imports_from_our_rooms():
    found = {name_of(file): own_imports(syntax_of(file)) for file in product_files()}
    # A file that only re-exports, or only wires, names everything once: that is its one job.
    wiring = {name for name in found if name.endswith(("__init__.py", "__main__.py", "node.py"))}
    assert {name: n for name, n in found.items() if n > 12 and name not in wiring} == {}


def test_no_file_has_a_name_that_says_nothing():
    files = [*product_files(), *files_of_tests(), *python_files(ROOT / "connectors")]
    assert [name_of(f) for f in files if f.stem.strip("_") in VAGUE or f.parent.name in VAGUE] == []


def test_the_top_level_is_exactly_the_rooms():
    """Of what is there for people to read; what a build or an editor leaves behind is ignored, in
    a checkout of git as in an unpacked archive.
    """
    assert top_level(ROOT) == TOP_LEVEL


def top_level(root):
    ignored = (root / ".gitignore").read_text(encoding="utf-8").split()
    names = {file.name for file in root.iterdir() if not file.name.startswith(".")}
    return {name for name in names if kept(root / name, [line.strip("/") for line in ignored])}


def kept(file, ignored):
    """Whether it is a file, or has one below it, that no line of `.gitignore` means."""
    if any(fnmatch(file.name, line) for line in ignored):
        return False
    return not file.is_dir() or any(kept(one, ignored) for one in file.iterdir())


def test_a_stray_file_at_the_top_goes_red_and_leftovers_do_not(tmp_path):
    (tmp_path / ".gitignore").write_text("__pycache__/\n*.egg-info/\nderby.log\n")
    (tmp_path / "services").mkdir()
    for left in ("penstock.egg-info", ".git", "gone/rooms/__pycache__", "empty"):
        (tmp_path / left).mkdir(parents=True)
    for file in ("services/a.py", "derby.log", "gone/rooms/__pycache__/a.pyc", ".git/HEAD"):
        (tmp_path / file).touch()
    assert top_level(tmp_path) == {"services"}
    (tmp_path / "notes.txt").touch()
    assert top_level(tmp_path) == {"services", "notes.txt"}


SKIPPING = {"skip", "skipif", "skipIf", "importorskip", "xfail"}


def skips(tree: ast.AST) -> list[str]:
    return [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in SKIPPING]


def test_no_test_is_ever_left_out():
    """A test that some machines leave out says nothing there, and nobody hears that."""
    found = {name_of(file): skips(syntax_of(file)) for file in files_of_tests()}
    assert {name: names for name, names in found.items() if names} == {}


def test_a_test_that_is_left_out_goes_red():
    tree = ast.parse("@pytest.mark.skipif(True)\ndef f():\n    pytest.importorskip('x')")
    assert sorted(skips(tree)) == ["importorskip", "skipif"]


def test_every_room_says_what_it_is_for():
    rooms = [file for package in PRODUCT for file in package.rglob("__init__.py")]
    silent = [name_of(room) for room in rooms if len(ast.get_docstring(syntax_of(room)) or "") < 20]
    assert silent == []


def test_every_folder_of_a_package_is_a_package():
    folders = {file.parent for file in product_files()}
    assert [name_of(f) for f in folders if not (f / "__init__.py").exists()] == []


def test_no_readme_is_longer_than_150_lines():
    readmes = [file for file in ROOT.rglob("README.md") if ".venv" not in file.parts]
    assert [name_of(file) for file in readmes if lines(file) > 150] == []


def test_no_script_at_the_top_is_longer_than_15_lines():
    """setup.sh may be: it is what brings a bare machine here."""
    scripts = [*ROOT.glob("tests/*.sh"), *ROOT.glob("deploy/local/*.sh")]
    assert [name_of(f) for f in scripts if lines(f) > (40 if f.name == "setup.sh" else 15)] == []
