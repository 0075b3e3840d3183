"""Pages of the documentation, typed as a reader types them: files, commands, and what they print.

    page = read_page(file)
    with Typist(folder, {"3306": "14021"}, {"SHOP_PASSWORD": "secret"}) as typist:
        typist.type(page)

| block | what happens |
|---|---|
| any language, `title="orders.yaml"` | a file of this name |
| `bash` | commands, typed in the folder of the files; each must succeed |
| `bash title="First terminal"` | a command that goes on while others are typed |
| `bash title="Second terminal"` | commands that are typed meanwhile |
| `text` | what the commands before it printed, both streams; `…` stands for anything in a line, a line `…` for any lines |
| `text title="First terminal"` | what appears there; after a line `^C`, what appears after Ctrl-C |

While a command goes on in the first terminal, the commands before a `text` are typed again until they
print it: rows take a moment to arrive, for a reader, too.
"""  # noqa: E501 - a table

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock_kit.testing import wait_until
from support.processes import DIES_WITH_US

FIRST, SECOND = "First terminal", "Second terminal"
TYPED: Final = 240.0
"""Seconds for commands to end, on a machine that is busy; the longest start a cluster."""

SOON: Final = 90.0
"""Seconds for what a command prints, on a machine that is busy."""

_FENCE: Final = re.compile(
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"\n]+)\")? *\n(?P<body>.*?)^``` *$",
    re.MULTILINE | re.DOTALL,
)
_PROGRESS: Final = re.compile(r" rows/s, \d+ s$")
"""What a run prints every ten seconds where there is no terminal; in one it is a bar that goes."""

_ANY_LINES: Final = r"(?:.*\n)*?"
_INTERRUPT: Final = "^C"
_ENV: Final = ("env", "--default-signal=INT")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    title: str
    body: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_file(self) -> bool:
        """Whether it is written as a file."""
        return bool(self.title) and self.title not in {FIRST, SECOND}


def read_page(file: Path) -> list[Block]:
    """Return the blocks of a page.

    Raises:
        AssertionError: a fence is none of the above: it would be left out without a word.
    """
    text = file.read_text(encoding="utf-8")
    found = [
        Block(
            file.name,
            text.count("\n", 0, match.start()) + 1,
            match["language"],
            match["title"] or "",
            match["body"],
        )
        for match in _FENCE.finditer(text)
    ]
    fences = len(re.findall(r"^\s*```", text, re.MULTILINE))
    assert fences == 2 * len(found), f"{file.name}: a block that is not understood"
    return found


def appears(expected: str, printed: str) -> bool:
    """Return whether lines appear in a text, one after the other. Spaces count as one."""
    lines = [_normal(line) for line in expected.splitlines() if line.strip()]
    pattern = "".join(_ANY_LINES if line == "…" else _line_pattern(line) for line in lines)
    shown = [_normal(line) for line in printed.splitlines() if not _PROGRESS.search(line)]
    text = "".join(f"{line}\n" for line in shown if line)
    return re.search(f"^{pattern}", text, re.MULTILINE) is not None


def _normal(line: str) -> str:
    return " ".join(line.split())


def _line_pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.split("…"))) + r"\n"


class Typist:
    """Types pages in one folder. Leaving the `with` block kills what still runs."""

    def __init__(
        self, folder: Path, replaced: Mapping[str, str], variables: Mapping[str, str]
    ) -> None:
        """Prepare the terminals.

        Args:
            folder: Of the files and the state.
            replaced: Words of the pages, such as ports, and what is typed instead of them.
            variables: Of the environment of all commands.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._replaced = folder, replaced
        # short: the path of a unix socket has at most 107 bytes
        self._scratch = tempfile.TemporaryDirectory(prefix="pst-", ignore_cleanup_errors=True)
        tools = [variables.get("PATH", ""), str(Path(sys.executable).parent), os.environ["PATH"]]
        self._environment = {
            **os.environ,
            **variables,
            "PATH": os.pathsep.join(filter(None, tools)),
            "TMPDIR": self._scratch.name,
            "XDG_STATE_HOME": str(folder / ".state"),
        }
        self._log = Path(self._scratch.name) / "first.log"
        self._first: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._first is not None:
            _kill(self._first)
        self._scratch.cleanup()

    def type(self, page: list[Block]) -> None:
        """Type a page.

        Raises:
            AssertionError: a command failed, or printed something else.
        """
        waiting = list(reversed(page))
        while waiting:
            block = waiting.pop()
            if block.is_file:
                file = self._folder / block.title
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(self._text(block), encoding="utf-8")
            elif block.language == "bash" and block.title == FIRST:
                self._start(block)
            elif block.language == "bash":
                assert block.title or not self._runs, f"{block}: the first terminal is not free"
                prints = waiting and waiting[-1].language == "text" and not waiting[-1].title
                self._type(block, waiting.pop() if prints else None)
            elif block.language == "text" and block.title == FIRST:
                self._watch(block)
            else:
                raise AssertionError(f"{block}: neither a file, nor a command, nor its output")
        assert not self._runs, f"{page[0].page}: the first terminal is not free at its end"

    @property
    def _runs(self) -> bool:
        return self._first is not None and self._first.poll() is None

    def _text(self, block: Block) -> str:
        words = "|".join(map(re.escape, self._replaced))
        if not words:
            return block.body
        return re.sub(rf"\b(?:{words})\b", lambda found: self._replaced[found[0]], block.body)

    def _type(self, block: Block, output: Block | None) -> None:
        expected = self._text(output) if output else ""

        def fails() -> str:
            code, printed = self._run(block)
            if code == 0 and appears(expected, printed):
                return ""
            return f"{block} ended with {code} and printed\n{printed}"

        failure = fails()
        if failure and output and self._runs:
            last = [failure]

            def passes() -> bool:
                last.append(fails())
                return not last[-1] or not self._runs

            with suppress(TimeoutError):
                wait_until(passes, SOON, str(output))
            failure = last[-1]
        assert not failure, f"{failure}\nthe first terminal shows\n{self._shown()}"

    def _run(self, block: Block) -> tuple[int, str]:
        done = subprocess.run(
            [*DIES_WITH_US, "bash", "-euo", "pipefail", "-c", self._text(block)],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TYPED,
            check=False,
        )
        return done.returncode, done.stdout

    def _start(self, block: Block) -> None:
        assert not self._runs, f"{block}: the first terminal is not free"
        with self._log.open("wb") as log:
            self._first = subprocess.Popen(
                # as in a terminal, also where our own parent ignores SIGINT, as a shell's `&` does
                [*DIES_WITH_US, *_ENV, "bash", "-c", f"exec {self._text(block)}"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _watch(self, block: Block) -> None:
        """Wait until the first terminal shows a text, or ends."""
        assert self._first is not None, f"{block}: nothing was typed in the first terminal"
        expected, since = self._text(block), 0
        if expected.startswith(_INTERRUPT):
            expected, since = expected.removeprefix(_INTERRUPT), len(self._shown())
            os.killpg(self._first.pid, signal.SIGINT)  # a terminal tells the whole group
            wait_until(lambda: not self._runs, SOON, f"{block}: its end after Ctrl-C")
        shows = lambda: appears(expected, self._shown()[since:])  # noqa: E731
        with suppress(TimeoutError):
            wait_until(lambda: shows() or not self._runs, SOON, str(block))
        assert shows(), f"{block}: the first terminal shows\n{self._shown()}"

    def _shown(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._first else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command with all that it started in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
