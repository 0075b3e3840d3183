"""kill -9 at every step of a commit that has dead letters: every row is in exactly one place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from deltalake import DeltaTable

from support.processes import PLAIN
from system.pipelines import Pipeline

STEPS: Final = ("worker.sink_writing", "worker.sink_written", "worker.offset_committed")
"""Where letters are staged, prepared with the rows, and stored with the offsets but not shown."""

ROWS: Final = 1000
BAD: Final = 7
"""Every so manieth row is bad."""


class Mixed(Pipeline):
    """Numbered rows, some of which are no numbers, to a file; letters of these to another."""

    def __init__(self, folder: Path, topic: Mapping[str, Any] | None = None, **more: Any) -> None:
        """`topic`: what to do about bad rows instead; `more`: keys of the pipeline."""
        lines = [{"id": n, "value": "x" if n % BAD == 0 else str(n)} for n in range(ROWS)]
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "in.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.out, self.letters = folder / "out.jsonl", folder / "letters.jsonl"
        read = {"connector.class": "file-source", "file": str(file), "format": "jsonl"}
        write = {"connector.class": "file-sink", "format": "jsonl"}
        place = {f"deadletterqueue.sink.{k}": v for k, v in write.items()}
        place |= {"tolerance": "all", "deadletterqueue.sink.file": str(self.letters)}
        document = {
            "source": {**read, "tail": False, "block.bytes": 1024},
            "sink": {**write, "file": str(self.out)},
            "transforms": "cast",
            "transforms.cast.type": "Cast",
            "transforms.cast.spec": "value:int32",
            "errors": topic or place,
            "batch": {"max.rows": 100},
            **more,
        }
        super().__init__(folder, document, PLAIN)

    def places(self) -> tuple[Counter[int], Counter[int]]:
        """Return how often each row is among the others, and among the letters."""
        good = Counter(row["id"] for row in lines_of(self.out))
        bad = Counter(json.loads(row["row"])["id"] for row in lines_of(self.letters))
        return good, bad


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.timeout(300)
def test_a_kill_at_any_step_leaves_each_row_in_one_place(tmp_path: Path) -> None:
    pipeline = Mixed(tmp_path / "p")
    for step in STEPS:
        pipeline.kill_at(f"{step}=kill@2")
    outcome = pipeline.run()
    assert outcome.code == 0, outcome.output
    good, bad = pipeline.places()
    assert bad == Counter(range(0, ROWS, BAD))
    assert good == Counter(n for n in range(ROWS) if n % BAD)


@pytest.mark.timeout(300)
def test_a_kill_at_any_step_of_a_replay_leaves_each_row_in_one_place(tmp_path: Path) -> None:
    topic = {"tolerance": "all", "deadletterqueue.topic.name": "dead"}
    first = Mixed(tmp_path / "p", topic=topic)
    assert first.run().code == 0
    bad = list(range(0, ROWS, BAD))
    good, _ = first.places()
    assert good == Counter(n for n in range(ROWS) if n % BAD)
    letters = {"of": "p", "letters": f"0/0-{len(bad) - 1}"}
    # the last one cannot be cast again
    edits = json.dumps({f"0/{len(bad) - 1}": {"value": "y"}})
    replay = Mixed(
        tmp_path / "p", topic=topic, name="p.replay",
        replay={**letters, "set": json.dumps({"value": "5"}), "edits": edits},
    )  # fmt: skip
    for step in STEPS[1:]:
        replay.kill_at(f"{step}=kill@1")
    for _ in range(2):  # the second finds nothing that was not replayed
        outcome = replay.run()
        assert outcome.code == 0, outcome.output
    good, _ = replay.places()
    assert good == Counter(n for n in range(ROWS) if n != bad[-1])
    table = DeltaTable(tmp_path / "p" / "state" / "topics" / "dead").to_pyarrow_table()
    found = table.to_pylist()
    assert len(found) == len(bad) + 1
    (again,) = [one for one in found if "letter" in one["partition"]]
    assert json.loads(again["partition"])["letter"] == len(bad) - 1
    assert (json.loads(again["row"]), again["connector"]) == ({"id": bad[-1], "value": "y"}, "p")
