"""Names and folders that keep the house readable, and no test that is left out."""

import ast
from fnmatch import fnmatch

from support.checkout import (
    PRODUCT,
    ROOT,
    name_of,
    product_files,
    python_files,
    run,
    syntax_of,
)
from support.checkout import test_files as files_of_tests

TOP_LEVEL = {
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "proto",
    "services",
    "connectors",
    "deploy",
    "tests",
    "buf.yaml",
}
VAGUE = {"common", "util", "utils", "helper", "helpers", "base", "manager", "misc"}


def test_no_file_has_a_name_that_says_nothing():
    files = [*product_files(), *files_of_tests(), *python_files(ROOT / "connectors")]
    assert [name_of(f) for f in files if f.stem.strip("_") in VAGUE or f.parent.name in VAGUE] == []


def test_the_top_level_is_exactly_the_rooms():
    """Of what is there for people to read; what a build or an editor leaves behind is ignored, in
    a checkout of git as in an unpacked archive.
    """
    assert top_level(ROOT) == TOP_LEVEL


def test_nothing_that_a_build_leaves_is_committed():
    assert tracked_and_ignored(ROOT) == []


def tracked_and_ignored(root):
    """The files that git tracks although a line of `.gitignore` names them."""
    listed = run("git", "ls-files", "--cached", "--ignored", "--exclude-standard", cwd=root)
    return listed.stdout.splitlines() if listed.returncode == 0 else []  # an unpacked archive


def test_a_build_that_is_committed_goes_red(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "a.o").touch()
    (tmp_path / ".gitignore").write_text("target/\n")
    run("git", "init", "-q", cwd=tmp_path)
    run("git", "add", "-f", "target/a.o", cwd=tmp_path)
    assert tracked_and_ignored(tmp_path) == ["target/a.o"]


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
