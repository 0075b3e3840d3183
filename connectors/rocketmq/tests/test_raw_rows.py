"""Messages that could not be read are read again from what was kept of them."""

import json

from penstock_rocketmq import RocketmqSource

from penstock_connector import RawRow
from penstock_connector.testing import parse_rows, source_task

PLAIN = {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}
BORN_MS = 1_700_000_000_123


def config(rocketmq, topic, **more):
    return {
        "namesrv.addr": rocketmq.namesrv, "topics": topic, "key.converter": "json", **PLAIN,
        **rocketmq.login, **more,
    }  # fmt: skip


def properties(key, **more):
    born = {"BORN_TIMESTAMP": str(BORN_MS)}
    pairs = {"KEYS": key, **born, **more}.items()
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()


def raw_row(bad, **changes):
    return RawRow(bad.raw, json.loads(bad.partition_id), bad.dataset, changes)


def test_a_corrected_message_is_the_row_that_a_read_gives(rocketmq, topic):
    rocketmq.create_topic(topic)
    rocketmq.send(
        topic,
        (b'{"id": 1, "share": 0.5}', properties('{"id": 1}', h="0", TAGS="paid")),
        (b'{"id": 2}', properties("{", h="1", TAGS="paid")),
        (b'{"id": 3}', properties('{"id": 3}', h="3", TAGS="paid")),
        (b'{"other": 3}', properties('{"id": 3}', TAGS="unpaid")),
    )
    keys = config(rocketmq, topic, positions="true", tags="paid")
    with source_task(RocketmqSource, keys) as task:
        bad = task.until("bad_row").bad_row
        task.rows(2)
        (schema,) = task.schemas.values()
    again, keyed = parse_rows(
        RocketmqSource, keys, [raw_row(bad), raw_row(bad, __raw_key='{"id": 2}', share=2)]
    )
    assert (again.code, again.message.partition(":")[0]) == (
        "converter.not_json", "KEY_CONVERTER",
    )  # fmt: skip
    (row,) = keyed.to_pylist()
    assert (row["id"], row["share"], row["__key"]) == (2, 2.0, {"id": 2})
    assert (row["__ts_us"], row["__partition"], row["__offset"]) == (BORN_MS * 1000, 0, 1)
    assert dict(row["__headers"]) == {"h": b"1", "TAGS": b"paid"}
    assert keyed.schema == schema


def test_a_topic_that_is_gone_keeps_no_row_from_being_read(rocketmq, topic):
    (broker,) = (cluster := rocketmq.client()).list_masters()
    cluster.close()
    place = {"topic": f"{topic}-none", "broker": broker, "queue": 0}
    one = RawRow(b'{"n": 1}', place, "d", {"__raw_key": None})
    (found,) = parse_rows(RocketmqSource, config(rocketmq, topic), [one])
    assert found.to_pylist() == [{"n": 1, "__ts_us": None}]
