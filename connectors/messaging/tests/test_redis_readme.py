"""The pipeline of Redis's README runs as it stands there, and each row arrives once when it is
killed.
"""

import re
from pathlib import Path

import pytest
import yaml

from penstock_kit.testing import wait_until
from support.processes import PLAIN
from system.pipelines import Pipeline

pytestmark = pytest.mark.timeout(300)

README = Path(__file__).parent.parent / "penstock_messaging/redis/README.md"
(PIPELINE,) = map(
    yaml.safe_load, re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
)


def test_entries_become_hashes(own_redis, tmp_path):
    config = PIPELINE | {
        "source": PIPELINE["source"] | own_redis.keys, "sink": PIPELINE["sink"] | own_redis.keys,
    }  # fmt: skip
    pipeline = Pipeline(tmp_path, config, PLAIN)
    own_redis.client.xadd("orders", {"id": 7, "state": "paid"})
    with pipeline.running():
        wait_until(lambda: own_redis.client.exists("latest:orders:7"), 120, "the hash")
        own_redis.client.xadd("orders", {"id": 7, "state": "sent"})
        wait_until(
            lambda: own_redis.client.hget("latest:orders:7", "state") == b"sent", 60, "its change"
        )
    assert own_redis.client.hgetall("latest:orders:7") == {b"id": b"7", b"state": b"sent"}


def test_every_entry_arrives_once_also_after_kills(own_redis, tmp_path):
    """From stream to stream, killed before and after the offsets are stored."""
    source = PIPELINE["source"] | own_redis.keys | {"batch.rows": 20}
    sink = {"connector.class": "redis-sink", "redis.key": "copy", **own_redis.keys}
    pipeline = Pipeline(tmp_path, {"source": source, "sink": sink}, PLAIN)
    for n in range(200):
        own_redis.client.xadd("orders", {"n": n})
    pipeline.kill_at("worker.sink_written=kill@1")
    pipeline.kill_at("worker.offset_committed=kill@1")
    with pipeline.running():
        for n in range(200, 300):
            own_redis.client.xadd("orders", {"n": n})
        wait_until(lambda: own_redis.client.xlen("copy") >= 300, 120, "all rows")
    found = [int(fields[b"n"]) for _, fields in own_redis.client.xrange("copy")]
    assert found == list(range(300))
