"""Offsets of Kafka Connect's connectors as ours, and back."""

from __future__ import annotations

import pytest

from penstock.cli.kafka_connect_offsets import (
    contains_gtids,
    export_offsets,
    import_offsets,
    is_same,
    match_tables,
)

SINK = {"partition": {"kafka_topic": "t", "kafka_partition": 1}, "offset": {"kafka_offset": 7}}


def of(partition, offset):
    return {"partition": partition, "offset": offset}


def imported(becomes, config, partition, offset):
    (one,) = import_offsets(becomes, "source", config, [of(partition, offset)])
    return one


def test_positions_of_a_sink_are_the_same_in_both():
    for translate in (import_offsets, export_offsets):
        (one,) = translate("jdbc-sink", "sink", {}, [SINK])
        assert (one.after, one.loss, one.repeats) == (SINK, "", "")


def test_a_file_goes_there_and_back():
    config = {"file": "/data/../data/in.txt"}
    there = of({"filename": config["file"]}, {"position": 41})
    (here,) = import_offsets("file-source", "source", config, [there])
    assert here.after == of({"file": "/data/in.txt"}, {"position": 41})
    assert "characters" in here.note
    stored = of({"file": "/data/in.txt"}, {"position": 60, "inode": 3, "head": "a", "tail": "b"})
    (back,) = export_offsets("file-source", "source", config, [stored])
    assert back.after == of({"filename": config["file"]}, {"position": 60})


@pytest.mark.parametrize(
    ("file", "filename", "offset", "word"),
    [
        ("in.txt", "in.txt", {"position": 4}, "relative"),
        ("/in.txt", "/in.txt", {"position": -4}, "none of a FileStreamSource"),
        ("/in.txt", "/in.txt", {"position": True}, "none of a FileStreamSource"),
        ("/in.txt", "/in.txt", None, "none of a FileStreamSource"),
    ],
)
def test_an_offset_of_a_file_that_cannot_be_used_says_why(file, filename, offset, word):
    one = imported("file-source", {"file": file}, {"filename": filename}, offset)
    assert one.after is None
    assert word in one.loss


def test_a_file_that_is_not_read_any_more_is_left_out():
    one = imported("file-source", {"file": "/b"}, {"filename": "/a"}, {"position": 3})
    assert (one.after, one.loss) == (None, "")
    assert "any more" in one.note


def test_what_only_one_side_knows_of_files_is_left_out():
    offsets = [of({"find": "/data/*"}, {"seen": 1}), of({"file": "/other"}, {"position": 1})]
    found = export_offsets("file-source", "source", {"file": "/in"}, offsets)
    assert [(one.after, one.loss) for one in found] == [(None, ""), (None, "")]
    (rows,) = export_offsets("file-source", "source", {"file": "/in"}, [of({"file": "/in"}, {})])
    assert "no bytes" in rows.loss


@pytest.mark.parametrize(
    ("stored", "here"),
    [
        ({"incrementing": 7}, {"incrementing": 7}),
        (
            {"timestamp": 1700000000123, "timestamp_nanos": 123000000, "incrementing": None},
            {"timestamp": 1700000000123, "timestamp_nanos": 123000000},
        ),
    ],
)
def test_offsets_of_tables(stored, here):
    partition = {"protocol": "1", "table": "shop.orders"}
    one = imported("jdbc-source", {"mode": "incrementing"}, partition, stored)
    assert one.after == of({"table": "shop.orders"}, here)


def test_a_query_and_a_bulk_copy_have_no_offset_to_go_on_from():
    query = imported(
        "jdbc-source", {"mode": "incrementing"}, {"query": "query"}, {"incrementing": 1}
    )
    assert "query" in query.loss
    bulk = imported("jdbc-source", {"mode": "bulk"}, {"table": "t"}, {})
    assert (bulk.after, bulk.loss) == (None, "")


TABLES = {"mode": "incrementing"}


def exported(becomes, stored, config, *there, partition=None):
    offset = of(partition or {"server": "shop"}, stored)
    (one,) = export_offsets(becomes, "source", config, [offset], there)
    return one


def table_there(name):
    return of({"protocol": "1", "table": name}, {"incrementing": 1})


@pytest.mark.parametrize("name", ["orders", "shop.orders"])
def test_a_table_goes_back_by_the_name_that_it_has_there(name):
    there = (table_there(name), table_there("o"))
    orders = {"table": "orders"}
    back = exported("jdbc-source", {"incrementing": 9}, TABLES, *there, partition=orders)
    assert back.after == of({"protocol": "1", "table": name}, {"incrementing": 9})
    assert not back.note
    stored = {"incrementing": 9, "gaps": "3-4"}
    gaps = exported("jdbc-source", stored, TABLES, *there, partition=orders)
    assert "never there" in gaps.note


@pytest.mark.parametrize(
    ("stored", "config", "names", "word"),
    [
        ({"incrementing": 9}, TABLES, ["a.orders", "b.orders"], "how its driver names"),
        ({"incrementing": 9}, TABLES, [], "how its driver names"),
        ({"incrementing": 9}, {"mode": "timestamp"}, ["orders"], "mode=incrementing"),
        ({"timestamp": "2026-01-31", "key": []}, TABLES, ["orders"], "another mode"),
        ({"incrementing": None}, TABLES, ["orders"], "another mode"),
    ],
)
def test_a_table_whose_offset_or_name_has_no_equal_there_says_why(stored, config, names, word):
    there = map(table_there, names)
    back = exported("jdbc-source", stored, config, *there, partition={"table": "orders"})
    assert back.after is None
    assert word in back.loss


def test_two_offsets_never_become_one_and_a_query_is_no_table():
    tables = [of({"table": name}, {"incrementing": 9}) for name in ("orders", "shop.orders")]
    found = export_offsets("jdbc-source", "source", TABLES, tables, [table_there("shop.orders")])
    assert [(one.after, one.loss) for one in found] == [
        (None, "two tables here have one name there")
    ] * 2
    there = of({"query": "query"}, {"incrementing": 1})
    back = exported(
        "jdbc-source", {"incrementing": 9}, TABLES, there, partition={"query": "digest"}
    )
    assert (back.after, "only offsets of tables" in back.loss) == (None, True)


def test_a_table_that_is_not_read_here_is_a_loss_not_a_silent_new_beginning():
    names = ["public.orders", "shop.public.lines", "public.gone"]
    offsets = [of({"protocol": "1", "table": name}, {"incrementing": 1}) for name in names]
    found = import_offsets("jdbc-source", "source", {}, offsets)
    orders, lines, gone = match_tables(found, {"public.orders", "public.lines"})
    assert orders.after["partition"] == {"table": "public.orders"}
    assert lines.after["partition"] == {"table": "public.lines"}
    assert (gone.after, gone.loss) == (None, "the connector reads no table public.gone here")


# as Debezium 3.6 writes them
PLACE = {"ts_sec": 1, "file": "bin.000003", "pos": 154, "server_id": 9, "gtids": "u:1-5"}


def test_a_mirror_goes_there_and_back_at_its_offsets():
    stored = [of({"cluster": "a", "topic": "orders", "partition": 3}, {"offset": 41})]
    (here,) = import_offsets("mirror-source", "source", {}, stored)
    assert (here.after, here.loss) == (stored[0], "")
    (back,) = export_offsets("mirror-source", "source", {}, [here.after])
    assert back.after == stored[0]


@pytest.mark.parametrize("becomes", ["mirror-checkpoint-source", "mirror-heartbeat-source"])
def test_checkpoints_and_heartbeats_need_no_offset(becomes):
    one = imported(becomes, {}, {"targetClusterAlias": "b"}, {"offset": 0})
    assert (one.after, one.loss) == (None, "")


def test_a_place_between_two_transactions_of_mysql():
    one = imported("mysql-cdc", {"topic.prefix": "shop"}, {"server": "shop"}, PLACE)
    assert one.after == of({"server": "shop"}, {"file": "bin.000003", "pos": 154, "gtid": "u:1-5"})
    assert not one.repeats


@pytest.mark.parametrize("within", [{"event": 2}, {"event": 2, "row": 1}, {"row": 1}])
def test_a_place_within_a_transaction_of_mysql_says_what_comes_again(within):
    one = imported("mysql-cdc", {"topic.prefix": "shop"}, {"server": "shop"}, PLACE | within)
    assert one.after["offset"]["pos"] == 154
    assert "come again" in one.repeats


def test_the_last_commit_of_postgresql():
    config = {"database.dbname": "shop", "slot.name": "debezium"}
    stored = {"lsn": 23876536, "lsn_commit": 23876424, "lsn_proc": 23876424, "txId": 3}
    one = imported("postgres-cdc", config, {"server": "s"}, stored)
    partition = {"database": "shop", "slot": "debezium"}
    assert one.after == of(partition, {"lsn": "0/16C5348"})
    assert "come again" in one.repeats


SHOP = {"topic.prefix": "shop", "database.dbname": "shop"}
BINLOG = {"file": "bin.000003", "pos": 154, "gtid": "u:1-5", "server": "1", "lists": {}}
SLOT = {"database": "shop", "slot": "debezium"}
LSN = {"lsn": "1/16C5348", "tables": [1]}


def debezium_had(**offset):
    return of({"server": "shop"}, offset)


def test_a_place_in_a_binary_log_goes_back_to_debezium():
    mysql = exported("mysql-cdc", BINLOG, SHOP, debezium_had(file="bin.000001", gtids="u:1-3"))
    place = {"file": "bin.000003", "pos": 154, "gtids": "u:1-5"}
    assert mysql.after == of({"server": "shop"}, place)
    assert (mysql.repeats, "snapshot.mode=recovery" in mysql.note) == ("", True)
    again = exported("mysql-cdc", BINLOG | {"rows": 3, "txn": "u:6"}, SHOP)
    assert "come again" in again.repeats
    assert "recovery" in again.remark


@pytest.mark.parametrize(
    ("had", "gtids"), [({}, None), ({"gtids": "u:1-9"}, None), ({"gtids": "u:2-5"}, "u:1-5")]
)
def test_gtids_that_are_not_all_would_repeat_the_log(had, gtids):
    back = exported("mysql-cdc", BINLOG, SHOP, debezium_had(file="bin.000001", **had))
    assert back.after["offset"].get("gtids") == gtids
    assert ("does not have all" in back.note) is (bool(had) and gtids is None)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("U:1-5", "u:1-5", True),
        ("u:1-5:7-9", "u:7-8", True),
        ("u:1-5:7-9", "u:5-7", False),
        ("u:510", "u:1-509", False),
        ("u:1-5, v:1", "v:1,u:2", True),
        ("u:1-5", "v:1", False),
        ("0-1-9", "0-2-9", True),
        ("0-1-9,1-1-3", "1-1-4", False),
        ("", "u:1", False),
        ("u:tag:1-5", "u:tag:1-5", False),
    ],
)
def test_which_gtids_are_in_others(ours, theirs, expected):
    assert contains_gtids(ours, theirs) is expected


def test_a_place_in_a_write_ahead_log_goes_back_to_debezium():
    back = exported("postgres-cdc", LSN, SHOP, partition=SLOT)
    place = dict.fromkeys(("lsn", "lsn_proc", "lsn_commit"), 0x1016C5348)
    assert back.after == of({"server": "shop"}, place | {"messageType": "COMMIT"})
    assert back.repeats == ""
    within = LSN | {"within": ["1/16C5400", 7]}
    assert "come again" in exported("postgres-cdc", within, SHOP, partition=SLOT).repeats


@pytest.mark.parametrize(
    ("becomes", "stored", "word"),
    [
        ("mysql-cdc", {"file": "b", "pos": 4, "snapshot": {"work": [1]}}, "still read here"),
        ("postgres-cdc", {"lsn": "0/1", "snapshot": {"todo": [1]}}, "still read here"),
        ("mysql-cdc", {"file": "b", "pos": 4, "prepared": {"x": ["a", 4]}}, "prepared (XA)"),
        ("mysql-cdc", {"gtid": "u:1-5"}, "no file"),
        ("postgres-cdc", {"lsn": "x"}, "no place"),
        ("postgres-cdc", {}, "no place"),
        ("s3-source", {"a": 1}, "more in it"),
    ],
)
def test_a_place_that_debezium_cannot_go_on_from_says_why(becomes, stored, word):
    partition = SLOT if becomes == "postgres-cdc" else None
    back = exported(becomes, stored, SHOP, partition=partition)
    assert back.after is None
    assert word in back.loss


def test_places_of_an_earlier_slot_or_server_are_left_out():
    old = of(SLOT | {"slot": "old"}, {"lsn": "0/1"})
    found = export_offsets("postgres-cdc", "source", SHOP, [old, of(SLOT, LSN)])
    assert [bool(one.after) for one in found] == [False, True]
    assert "another server or slot" in found[0].note
    old = of({"server": "old"}, BINLOG)
    (left,) = export_offsets("mysql-cdc", "source", SHOP, [old])
    assert (left.after, left.loss) == (None, "")


def test_a_prefix_that_is_a_reference_is_found_by_what_is_stored_there():
    config = SHOP | {"topic.prefix": "${env:PREFIX}"}
    back = exported("mysql-cdc", BINLOG, config, of({"server": "s1"}, {}))
    assert back.after["partition"] == {"server": "s1"}
    for there in ((), (of({"server": "s1"}, {}), of({"server": "s2"}, {}))):
        lost = exported("mysql-cdc", BINLOG, config, *there)
        assert (lost.after, "does not show which" in lost.loss) == (None, True)
    two = [of({"server": name}, BINLOG) for name in ("s1", "s2")]
    found = export_offsets("mysql-cdc", "source", config, two, [of({"server": "s1"}, {})])
    assert all("several places" in one.loss for one in found)


@pytest.mark.parametrize("becomes", ["mysql-cdc", "postgres-cdc"])
@pytest.mark.parametrize(
    ("stored", "word"),
    [
        ({"snapshot": True}, "that of Debezium's snapshot"),
        (
            {"snapshot": "INITIAL", "snapshot_completed": True, "last_snapshot_record": True},
            "that of Debezium's snapshot",
        ),
        ({"incremental_snapshot_primary_key": "aced"}, "incremental snapshot has not ended"),
        ({"file": "", "lsn_commit": None}, "it "),
    ],
)
def test_a_snapshot_that_runs_is_not_taken_over(becomes, stored, word):
    one = imported(becomes, {}, {"server": "s"}, PLACE | {"lsn_commit": 1} | stored)
    assert one.after is None
    assert word in one.loss


def test_a_class_that_nobody_translates_is_a_loss():
    one = imported("http-source", {}, {"a": 1}, {"b": 2})
    assert (one.after, "http-source" in one.loss) == (None, True)


def test_offsets_are_the_same_in_any_order():
    other = of({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})
    swapped = of({"kafka_partition": 1, "kafka_topic": "t"}, {"kafka_offset": 7})
    assert is_same([SINK, other], [other, swapped])
    assert not is_same([SINK], [{**SINK, "offset": {"kafka_offset": 8}}])
    assert not is_same([SINK], [SINK, other])
