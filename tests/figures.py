"""Print figures of the code: files, lines, import chains, names and words that are to be avoided.

    python tests/figures.py

They are compared before and after a change of the structure; nothing fails because of them.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ROOT / "services" / "penstock"

AVOIDED: Final = re.compile(
    r"""\b(
        told | tells? | said | says? | ask(s|ed|ing)? | nobody | somebody | whoever
        | people | unsaid | reworded | tasting | tastes? | rehears\w+ | lettered | lettering
        | (set[ ])?apart | room(s)? | posting | telling | holdings | abreast
    )\b
    | (?<![-_/."'])\b(?<!dead[ ])letters?\b(?![-_."'/=])
    | (?-i:\b(MOST|LEAST)_[A-Z_]+\b | \b(AT_ONCE|AGAIN|GIVE_UP)\b)
    | ,\ and\ no\b | \bthe\ (one|slow)\ way\b""",
    re.VERBOSE | re.IGNORECASE,
)
"""Words of an older vocabulary. Some have a plain use, too: the figure is compared, not zero."""

PARTICIPLE: Final = re.compile(r"^[a-z]+(ing|ed)$")
FIELD_WORDS: Final = frozenset(
    {"staging", "batching", "embedded", "logging", "feed", "distributed"}
)
"""Nouns and adjectives of the field that end like a gerund or a participle."""


def main() -> int:
    """Print a line for each figure."""
    files = sorted(file for file in PRODUCT.rglob("*.py") if "api" not in file.parts)
    lengths = [_lines(file) for file in files]
    imports = _imports(files)
    gerunds = [file for file in files if _is_participle(file.stem)]
    rows = [
        ("files of services/penstock without api", len(files)),
        ("lines of them", sum(lengths)),
        ("median of lines, without __init__", f"{_median(files):.0f}"),
        ("lines of docstring and imports at the head", f"{_heads(files) / sum(lengths):.1%}"),
        ("longest chain of imports", len(longest_chain(imports))),
        ("the same within worker", len(longest_chain(_within(imports, "penstock.worker")))),
        (
            "modules named by a gerund or a participle",
            f"{len(gerunds)} ({len(gerunds) / len(files):.1%})",
        ),
        ("lines with words to avoid, in Python", sum(_avoided(file) for file in files)),
        (
            "the same, in READMEs",
            sum(_avoided(file) for file in ROOT.rglob("README.md") if ".venv" not in file.parts),
        ),
        *(
            (f"lines of {name}", sum(map(_lines, _python(folder))))
            for name, folder in _connectors()
        ),
    ]
    for name, value in rows:
        print(f"{name:<48}{value!s:>12}")
    if "-v" in sys.argv:
        print("\n".join(longest_chain(imports)), *gerunds, sep="\n")
    return 0


def longest_chain(imports: dict[str, set[str]]) -> list[str]:
    """Return modules of which each imports the next one; a cycle is followed once."""
    chains: dict[str, list[str]] = {}

    def chain(module: str, path: frozenset[str]) -> list[str]:
        if module not in chains:
            nexts = [chain(n, path | {module}) for n in imports.get(module, ()) if n not in path]
            chains[module] = [module, *max(nexts, key=len, default=[])]
        return chains[module]

    sys.setrecursionlimit(10_000)
    return max((chain(module, frozenset()) for module in sorted(imports)), key=len, default=[])


def _imports(files: Iterable[Path]) -> dict[str, set[str]]:
    names = {_module(file): file for file in files}
    return {module: set(_imported(file, names)) - {module} for module, file in names.items()}


def _imported(file: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (
                name if name in known else node.module
                for name in inner
                if name in known or node.module in known
            )
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def _within(imports: dict[str, set[str]], package: str) -> dict[str, set[str]]:
    inner = {module for module in imports if module.startswith(package)}
    return {module: imports[module] & inner for module in inner}


def _module(file: Path) -> str:
    parts = file.relative_to(PRODUCT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_participle(name: str) -> bool:
    return bool(PARTICIPLE.match(name)) and name not in FIELD_WORDS


def _heads(files: Iterable[Path]) -> int:
    return sum(_head(ast.parse(file.read_text("utf-8"))) for file in files)


def _head(tree: ast.Module) -> int:
    """Return the last line of a module's docstring and imports."""
    head = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not isinstance(node, ast.Import | ast.ImportFrom):
            break
        head = node.end_lineno or head
    return head


def _avoided(file: Path) -> int:
    return sum(bool(AVOIDED.search(line)) for line in file.read_text("utf-8").splitlines())


def _median(files: Iterable[Path]) -> float:
    return statistics.median(_lines(file) for file in files if file.stem != "__init__")


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n")


def _python(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _connectors() -> list[tuple[str, Path]]:
    databases = ROOT / "connectors" / "databases" / "penstock_databases"
    return [
        (folder.name, folder)
        for folder in sorted(databases.iterdir())
        if folder.is_dir() and _python(folder)
    ]


if __name__ == "__main__":
    sys.exit(main())
