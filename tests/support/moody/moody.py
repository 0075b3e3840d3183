"""A source that fails, hangs or dies when a file says so, and a sink that hangs or fails.

`plan` fails the plan, `task N` the task that reads partition N, `tasks` all of them; `hang STAGE`
hangs for ever in validate, plan, connect, read, write or close; `alter` forbids a sink other
offsets, and `alter to FILE` writes them there; `refuse` fails the sink; `die exit`, `die kill` and
`die segfault` end the process while it reads, once. Into its `diary` go its plans, and which
partitions it began with; who keeps one gives no rows.
"""

import json
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from penstock_connector import (
    ApplyAction,
    Batch,
    ConfigError,
    ConnectorError,
    Partition,
    Sink,
    Source,
    key,
    serve,
)


@dataclass(frozen=True)
class MoodyConfig:
    """Keys of the source."""

    mood: str = key(doc="File that says how it feels.")
    partitions: int = key(1, doc="Partitions.")
    diary: str = key("", doc="File that it writes down in what it begins.")


class Moody(Source[MoodyConfig]):
    """Counts, a row at a time, unless its mood forbids it."""

    name = "moody-source"
    needs_commit: ClassVar[bool] = False

    @classmethod
    def plan(
        cls, config: MoodyConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Fail, or name the partitions."""
        note(config, "plan")
        hang(config, "plan")
        if mood(config) == "plan":
            raise ConfigError("moody.plan", "the mood forbids a plan")
        return [Partition({"n": number}) for number in range(config.partitions)]

    @classmethod
    def apply_action(
        cls,
        config: MoodyConfig,
        action: ApplyAction,
        *,
        last: MoodyConfig | None = None,
    ) -> Sequence[str]:
        """Write the action down beside the mood, and how many partitions there were before."""
        before = f" after {last.partitions}" if last else ""
        with Path(f"{config.mood}.applied").open("a", encoding="utf-8") as file:
            file.write(f"{action.name}{before}\n")
        return ["wrote it down"]

    @classmethod
    def send_signal(cls, config: MoodyConfig, signal: Mapping[str, Any]) -> str:
        """Write it down beside the mood; refuse to dance."""
        if signal["type"] == "dance":
            raise ConfigError("moody.signal", "the mood forbids to dance", fix="Sit.")
        place = f"{config.mood}.signals"
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(json.dumps(signal) + "\n")
        return place

    @classmethod
    def validate(cls, config: MoodyConfig) -> list[ConnectorError]:
        """Find nothing, in its own time."""
        hang(config, "validate")
        return []

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on after the offsets."""
        note(self.config, f"connect {sorted(p.key['n'] for p in partitions)}")
        hang(self.config, "connect")
        self._next: dict[int, int] = {
            int(p.key["n"]): int((p.offset or {"next": 0})["next"]) for p in partitions
        }
        self._turn = 0
        self._woken = threading.Event()

    def read_batch(self) -> Batch | None:
        """Give one row of the next partition."""
        hang(self.config, "read")
        die(self.config)
        numbers = sorted(self._next)
        number = numbers[self._turn % len(numbers)]
        self._turn += 1
        if mood(self.config) in {f"task {number}", "tasks"}:
            raise ConfigError("moody.task", "the mood forbids to go on")
        if self.config.diary:
            return None
        row = {"partition": number, "seq": self._next[number]}
        self._next[number] += 1
        self._woken.wait(0.05)
        return Batch(
            [row], offset={"next": self._next[number]}, partition={"n": number}, dataset="moods"
        )

    def close(self) -> None:
        """Let go of nothing, in its own time."""
        hang(self.config, "close")

    def ack(self, offsets: Mapping[str, Mapping[str, int]]) -> None:
        """Nothing is kept that could be forgotten."""


@dataclass(frozen=True)
class MoodySinkConfig:
    """Keys of the sink."""

    mood: str = key(doc="File that says how it feels.")
    taken: str = key("", doc="File to which it adds the `seq` of its rows.")


class MoodySink(Sink[MoodySinkConfig]):
    """Takes rows and forgets them, unless it hangs or fails."""

    name = "moody-sink"

    @classmethod
    def alter_offsets(
        cls, config: MoodySinkConfig, partitions: Sequence[Partition], *, dry_run: bool
    ) -> Sequence[Partition]:
        """Forbid it, or write down what is changed, and round it to tens."""
        felt = mood(config)
        if felt == "alter":
            raise ConfigError("moody.alter", "the mood forbids other offsets")
        rounded = [replace(p, offset=p.offset and tens(p.offset)) for p in partitions]
        if felt.startswith("alter to ") and not dry_run:
            kept = [[dict(p.key), p.offset] for p in rounded]
            Path(felt.removeprefix("alter to ")).write_text(json.dumps(kept), encoding="utf-8")
        return rounded

    def connect(self) -> None:
        """Open nothing, in its own time."""
        hang(self.config, "connect")

    def write_batch(self, dataset: str, rows: pa.RecordBatch) -> None:
        """Take rows, in its own time."""
        hang(self.config, "write")
        if mood(self.config) == "refuse":
            raise ConfigError("moody.refuse", "the mood forbids to take rows")
        if self.config.taken:
            with Path(self.config.taken).open("a", encoding="utf-8") as file:
                file.writelines(f"{number}\n" for number in rows.column("seq").to_pylist())

    def close(self) -> None:
        """Let go of nothing, in its own time."""
        hang(self.config, "close")


def hang(config: MoodyConfig | MoodySinkConfig, stage: str) -> None:
    """Never return, when that is the mood."""
    if mood(config) == f"hang {stage}":
        threading.Event().wait()


def tens(offset: Mapping[str, int]) -> dict[str, int]:
    """Return an offset's numbers without their last digits."""
    return {name: number // 10 * 10 for name, number in offset.items()}


def note(config: MoodyConfig, what: str) -> None:
    """Write a line, where somebody wants to read it."""
    if config.diary:
        with Path(config.diary).open("a", encoding="utf-8") as diary:
            diary.write(f"{what}\n")


def die(config: MoodyConfig) -> None:
    """End as the mood says, which is over then."""
    how = mood(config).removeprefix("die ")
    if how not in {"exit", "kill", "segfault"}:
        return
    Path(config.mood).unlink()
    if how == "exit":
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSEGV)


def mood(config: MoodyConfig | MoodySinkConfig) -> str:
    """Return what the file says; nothing when there is none."""
    path = Path(config.mood)
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


if __name__ == "__main__":
    serve(Moody, MoodySink)
