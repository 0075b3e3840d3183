"""A node whose topics are RocketMQ's: killed while rows go in and out, it loses none.

Rows that come twice came twice into RocketMQ.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import pytest

from penstock_kit.testing import read_ledger
from support.processes import PLAIN
from support.rocketmq import RocketmqCluster
from support.standalone import Standalone

pytestmark = pytest.mark.timeout(600)

ROWS: Final = 20_000


def test_a_node_that_is_killed_between_rocketmq_and_its_ends(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    write = {
        "connector.class": "verifiable-source",
        "partitions": 1,
        "rows": ROWS,
        "rate": 1000,
        "batch.rows": 50,
        "batch.max.rows": 100,
        "state.dir": tmp_path / "told",
        "topic": "numbers",
        "topic.partitions": 2,
    }
    read = {
        "connector.class": "verifiable-sink",
        "topics": "numbers",
        "ledger": ledger,
        "batch.max.rows": 100,
    }
    with RocketmqCluster(tmp_path / "rocketmq") as rocketmq:
        login = {f"rocketmq.{key}": text for key, text in rocketmq.login.items()}
        node = {"namesrv.addr": rocketmq.namesrv, **login}

        def arrived() -> set[int]:
            entries = read_ledger(ledger).entries if ledger.exists() else ()
            spans = (span for one in entries for span in one.sequences)
            return {number for low, high in spans for number in range(low, high + 1)}

        def has(least: int) -> bool:
            return len(arrived()) >= least

        started = partial(Standalone, tmp_path / "node", node, module=PLAIN, write=write, read=read)
        for least in (1000, 3000):
            with started() as running:
                running.wait_for(partial(has, least), f"{least} rows")
                running.process.kill()
        assert not has(ROWS), "the kills came after the end"
        with started() as running:
            running.wait_for(partial(has, ROWS), "all rows")
        sent = sum(len(rocketmq.read("numbers", queue).bodies) for queue in range(2))
    assert arrived() == set(range(ROWS))
    assert read_ledger(ledger).rows == sent
