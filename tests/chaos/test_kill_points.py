"""kill -9 at every step of a commit: every row arrives once, in order, whatever the step."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from chaos.verifiable import Verifiable

STEPS: Final = (
    "worker.sink_writing",
    "worker.sink_written",
    "worker.offset_committing",
    "worker.offset_committed",
)
ACKNOWLEDGING: Final = ("worker.acking", "worker.acked")
"""Steps after the commit: wherever the offsets are, the code is the same."""

CHAIN: Final = 900
"""Seconds for seven starts of a JVM on a busy machine."""


@pytest.mark.timeout(CHAIN)
@pytest.mark.parametrize(
    ("steps", "hits", "delivery"),
    [
        pytest.param(STEPS + ACKNOWLEDGING, (1, 4), "auto", id="offsets in their store"),
        pytest.param(STEPS, (4, 1), "exactly-once-sink", id="offsets in the sink"),
    ],
)
def test_a_kill_at_any_step_of_a_commit_loses_and_repeats_nothing(
    tmp_path: Path, steps: tuple[str, ...], hits: tuple[int, int], delivery: str
) -> None:
    """One kill after the other on the same state, at the first or the fourth commit of each life;
    the source forgets what it was told of.
    """
    pipeline = Verifiable(tmp_path, rows=2500, prune=True, delivery=delivery)
    for step, hit in zip(steps, hits * (len(steps) // 2), strict=True):
        pipeline.kill_at(f"{step}=kill@{hit}")
        pipeline.check_so_far().require()
    assert pipeline.arrived() < 2 * pipeline.rows, "the kills came after the end"
    pipeline.complete()
    report = pipeline.check().require()
    assert report.batches >= 10
    assert pipeline.told_below() == [pipeline.rows] * 2
