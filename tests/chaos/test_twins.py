"""An invariant that is broken on purpose is seen: a checker that cannot turn red proves nothing.

Each twin is a run that would be clean, with one step of the order of a commit skipped by a fault
point's `break`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.verifiable import Verifiable
from penstock_kit.testing.delivery import Kind
from system.pipelines import nothing_runs

ROWS = 1500
TOLD_TOO_EARLY = "worker.ack_order=break,worker.offset_committing=hang@1"

pytestmark = pytest.mark.timeout(400)


def test_offsets_before_rows_lose_rows(tmp_path: Path) -> None:
    """Invariant 1. Broken, each commit stores its offsets twice; the fifth time is before rows."""
    pipeline = Verifiable(tmp_path, rows=ROWS)
    pipeline.kill_at("worker.commit_order=break,worker.offset_committed=kill@5")
    pipeline.complete()
    assert pipeline.check().rows(Kind.GAP) > 0, pipeline.check()


def test_a_half_applied_transaction_that_is_not_recovered_is_lost(tmp_path: Path) -> None:
    """Invariant 1: what was prepared counts as written only because it is applied again."""
    pipeline = Verifiable(tmp_path, rows=ROWS)
    pipeline.kill_at("worker.offset_committed=kill@3")
    pipeline.complete(PENSTOCK_FAULTS="worker.skip_recover=break")
    assert pipeline.check().rows(Kind.GAP) > 0, pipeline.check()


def test_a_source_that_is_told_too_early_forgets_rows_that_are_asked_for(tmp_path: Path) -> None:
    """Invariant 2: told before the offset is durable, then killed.

    The first commit stops before its offset is stored, until the source was told: a kill would
    otherwise race with the message on its way.
    """
    pipeline = Verifiable(tmp_path, rows=ROWS, prune=True)
    with pipeline.command(PENSTOCK_FAULTS=TOLD_TOO_EARLY) as process:
        process.wait_for(lambda: sum(pipeline.told_below()) > 0, 120, "the source to be told")
        process.kill()
        nothing_runs(process)
    outcome = pipeline.run()
    assert outcome.code == 1, outcome.output
    assert "[verifiable.gap]" in outcome.output


def test_a_snapshot_that_waits_goes_on_when_the_word_was_lost(tmp_path: Path) -> None:
    """Invariant 2: a source that waits for a commit is told again, until it confirms."""
    pipeline = Verifiable(tmp_path, rows=ROWS, gate=500)
    pipeline.complete(PENSTOCK_FAULTS="worker.drop_ack=break@2-6")
    pipeline.check().require()


def test_a_snapshot_that_is_never_told_fails(tmp_path: Path) -> None:
    """Within half a minute the task is FAILED, with a code: never silently running."""
    pipeline = Verifiable(tmp_path, rows=ROWS, gate=500)
    outcome = pipeline.run(PENSTOCK_FAULTS="worker.drop_ack=break")
    assert outcome.code == 1, outcome.output
    assert "[source.deaf]" in outcome.output


def test_a_source_that_is_never_told_keeps_its_rows_for_ever(tmp_path: Path) -> None:
    """Invariant 2, the other way: everything arrived, and the source does not know."""
    pipeline = Verifiable(tmp_path, rows=ROWS, prune=True)
    pipeline.complete(PENSTOCK_FAULTS="worker.drop_ack=break")
    pipeline.check().require()
    assert pipeline.told_below() == []
