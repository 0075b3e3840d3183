"""The commands that stand in README files and in pages: none is there that nobody has run.

What comes after the language of a fenced block says who runs it (tests/README.md has the table):

    ```bash run                     the test, in a scratch folder that looks like the root
    ```console run                  the same for `$ ` lines, and what they print; `…` is anything
    ```bash tested-by=tests/x.py    that file; it must name what the block names
    ```bash not-run="it is paid"    nobody, and this is why

Pages of some folders have a test that types every block of theirs: `TYPED_BY`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.checkout import ROOT

PAGES = ROOT / "deploy" / "docs" / "pages"
TYPED_BY = {
    "deploy/docs/pages/use-cases": "tests/system/test_use_cases.py",
    "deploy/docs/pages/operate/runbooks": "tests/contract/deploy/test_runbooks.py",
}
"""The test of all blocks of a folder. Such blocks need no mark, and may have a title."""

SHELLS = frozenset({"bash", "sh", "shell", "console", "shell-session"})
_RUNNERS = {"bash", "python", "penstock", "source", "."}
_SKIPPED = {".venv", ".git", "node_modules"}
_FENCE = re.compile(
    r"^(?P<fence>`{3,}) *(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence) *$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block of shell commands."""

    readme: str
    line: int
    language: str
    marks: dict[str, str]
    body: str

    def __str__(self) -> str:
        return f"{self.readme}:{self.line}"

    def commands(self) -> list[str]:
        """The command lines, without comments and without what they print."""
        lines = self.body.splitlines()
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def readmes() -> list[Path]:
    """Return the README files of the checkout, and the pages of its documentation."""
    found = {*ROOT.rglob("README.md"), *PAGES.rglob("*.md")}
    return sorted(file for file in found if not _SKIPPED & set(file.parts))


def blocks(text: str, readme: str) -> Iterator[Block]:
    """Yield the blocks of shell commands in a README."""
    for found in _FENCE.finditer(text):
        language, *words = shlex.split(found["info"]) or [""]
        if language in SHELLS:
            marks = dict(word.partition("=")[::2] for word in words)
            line = text.count("\n", 0, found.start()) + 1
            yield Block(readme, line, language, marks, found["body"])


def complaint(block: Block) -> str | None:
    """Return what is wrong with the way a block is marked, None when it is in order."""
    test = TYPED_BY.get(str(Path(block.readme).parent))
    marks = block.marks.keys() - ({"title"} if test else set())
    if test and not marks:
        return _complaint_about_folder(block, ROOT / test)
    known = marks & {"run", "tested-by", "not-run"}
    if len(known) != 1 or marks != known:
        return f"{block}: say who runs it: run, tested-by=FILE or not-run=WHY"
    if "run" in known:
        return None
    if "not-run" in known:
        return None if block.marks["not-run"] else f"{block}: say why it is not run"
    return _complaint_about_test(block, ROOT / block.marks["tested-by"])


def _complaint_about_folder(block: Block, test: Path) -> str | None:
    folder = Path(block.readme).parent.name
    if not test.is_file() or f'"{folder}"' not in test.read_text(encoding="utf-8"):
        return f"{block}: {test.name} does not read the pages of {folder}"
    return None


def _complaint_about_test(block: Block, test: Path) -> str | None:
    if not test.is_file():
        return f"{block}: there is no {block.marks['tested-by']}"
    text = test.read_text(encoding="utf-8")
    for command in block.commands():
        names = [word for word in command.split()[:2] if word not in _RUNNERS]
        if not all(name in text for name in names[:1]):
            return f"{block}: {test.name} does not name {names[0]}"
    return None


def play(story: list[Block], folder: Path, deadline: float = 240) -> None:
    """Run the blocks of one README, in their order, in one folder that looks like the root.

    Raises:
        AssertionError: a command failed, or printed something else.
    """
    for entry in ROOT.iterdir():
        if entry.name not in _SKIPPED:
            (folder / entry.name).symlink_to(entry)
    for block in story:
        code, printed = _bash("\n".join(block.commands()), folder, deadline)
        assert code == 0, f"{block} ended with {code}\n{printed}"
        if block.language == "console":
            expected = [line for line in block.body.splitlines() if not line.startswith("$ ")]
            assert matches("\n".join(expected), printed), f"{block} printed\n{printed}"


def matches(expected: str, printed: str) -> bool:
    """Return whether a text is what was expected, where `…` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def _bash(script: str, folder: Path, deadline: float) -> tuple[int, str]:
    tools = Path(sys.executable).parent
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PENSTOCK_VENV": sys.prefix},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=deadline)
    finally:
        _end(process)
    return process.returncode, printed


def _end(process: subprocess.Popen[str]) -> None:
    """Kill what a block left in the background."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
