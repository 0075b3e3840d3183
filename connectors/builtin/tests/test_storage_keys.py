"""Configurations of Confluent's S3 and HDFS sinks load: each key is in force, told or refused."""

import datetime as dt
import re

import fastavro
import pyarrow as pa
import pytest

from penstock_builtin import CONNECTORS
from penstock_builtin.file_sink import FileSink, FileSinkConfig
from penstock_builtin.file_sink.path_format import PathFormat
from penstock_builtin.file_sink.storage_keys import AS_HERE, REFUSED, WITHOUT_EFFECT
from penstock_connector import SchemaError
from penstock_connector._config import compatibility_keys, keys_of, parse_config, read_config
from support.s3 import ACCESS, SECRET, S3Server

AT = dt.datetime(2026, 1, 2, 15, 4, 5, 678901)  # noqa: DTZ001 - of no zone
S3 = {"s3.bucket.name": "b", "format.class": "io.confluent.connect.s3.format.json.JsonFormat"}
DAY = "'year'=YYYY/'month'=MM/'day'=dd"


def test_a_configuration_of_the_s3_sink_loads():
    given = {
        "s3.bucket.name": "topics", "s3.region": "eu-central-1", "s3.part.size": "5242880",
        "flush.size": "1000", "rotate.interval.ms": "600000",
        "rotate.schedule.interval.ms": "60000", "topics.dir": "lake",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
        "path.format": DAY, "partition.duration.ms": "3600000", "locale": "en_US",
        "timezone": "Europe/Berlin", "timestamp.extractor": "RecordField",
        "timestamp.field": "at", "s3.compression.type": "gzip", "schema.compatibility": "NONE",
        "behavior.on.null.values": "fail", "filename.offset.zero.pad.width": "12",
        "aws.access.key.id": "a", "aws.secret.access.key": "s", "store.url": "http://store:9000",
        "s3.path.style.access.enabled": "false",
    }  # fmt: skip
    config = parse_config(FileSinkConfig, given)
    assert config.path == "s3://topics/lake/${topic}"
    assert (config.format, config.packing, config.ending) == ("jsonl", "gzip", "json.gz")
    assert (config.rotate_rows, config.partition_zone) == (1000, "Europe/Berlin")
    assert (config.s3_endpoint, config.s3_access_key) == ("http://store:9000", "a")
    assert config.s3_path_style is False
    assert "secret" not in repr(config).replace("secret_", "")
    sink = FileSink()
    sink.init(config)
    assert sink.commit_every == 60.0
    told = compatibility_keys(FileSinkConfig, given)
    assert {name for name, key in told.items() if key.why} == {"s3.part.size"}
    assert config.unused_keys() == {"locale": "`path.format` has no names of months or days"}


def test_a_configuration_of_the_hdfs_sink_loads():
    config = parse_config(
        FileSinkConfig,
        {
            "hdfs.url": "hdfs://nn:8020", "flush.size": "3", "logs.dir": "logs",
            "format.class": "io.confluent.connect.hdfs.avro.AvroFormat",
            "partitioner.class": "io.confluent.connect.hdfs.partitioner.FieldPartitioner",
            "partition.field.name": "land,day", "hive.integration": "false",
            "hdfs.authentication.kerberos": "false", "avro.codec": "bzip2",
        },
    )  # fmt: skip
    assert config.path == "hdfs://nn:8020/topics/${topic}"
    assert (config.format, config.packing, config.ending) == ("avro", "bzip2", "avro")
    assert (config.partition_by, config.partition_keep) == (("land", "day"), True)


@pytest.mark.parametrize(
    "name",
    [
        "io.confluent.connect.s3.S3SinkConnector",
        "io.confluent.connect.hdfs.HdfsSinkConnector",
        "io.confluent.connect.hdfs3.Hdfs3SinkConnector",
    ],
)
def test_the_class_names_are_those_of_the_sink(name):
    assert [kind for kind in CONNECTORS if name in kind.aliases] == [FileSink]


def test_every_key_is_in_force_or_told_or_refused():
    keys = keys_of(FileSinkConfig)
    assert not {*AS_HERE, *WITHOUT_EFFECT, *REFUSED} & set(keys)
    for name, (why, fix) in REFUSED.items():
        _, errors = read_config(FileSinkConfig, {**S3, name: "something"})
        assert [(e.code, e.config_path) for e in errors] == [("config.not_supported", name)]
        assert (why in errors[0].message, errors[0].fix) == (True, fix)
    for name, values in AS_HERE.items():
        assert read_config(FileSinkConfig, {**S3, name: values[0]})[1] == []
    for name in WITHOUT_EFFECT:
        assert compatibility_keys(FileSinkConfig, {name: "something"})[name].why


@pytest.mark.parametrize(
    ("given", "code", "where"),
    [
        ({"path": "/x"}, "config.contradiction", "s3.bucket.name"),
        ({"hdfs.url": "hdfs://nn"}, "config.contradiction", "hdfs.url"),
        ({"format": "csv"}, "config.contradiction", "format.class"),
        ({"rotate.rows": "5", "flush.size": "6"}, "config.contradiction", "flush.size"),
        ({"format.class": "org.example.Mine"}, "config.invalid_choice", "format.class"),
        ({"partitioner.class": "org.example.Mine"}, "config.invalid_choice", "partitioner.class"),
        ({"timestamp.extractor": "org.example.Mine"}, "config.invalid_choice",
         "timestamp.extractor"),
        ({"partitioner.class": "FieldPartitioner"}, "config.contradiction",
         "partition.field.name"),
        ({"partitioner.class": "TimeBasedPartitioner"}, "config.contradiction", "path.format"),
        ({"path.format": "'year'=VV"}, "config.invalid_value", "path.format"),
        ({"path.format": "'year=YYYY"}, "config.invalid_value", "path.format"),
        ({"path.format": "'..'/YYYY"}, "config.invalid_value", "path.format"),
        ({"path.format": "MMMM", "locale": "de"}, "config.contradiction", "locale"),
        ({"s3.compression.type": "brotli"}, "config.invalid_choice", "s3.compression.type"),
        ({"format.class": "ParquetFormat", "parquet.codec": "lzo"}, "config.invalid_value",
         "compression"),
        ({"timezone": "Mars/Base"}, "config.invalid_value", "partition.zone"),
    ],
)  # fmt: skip
def test_what_loses_its_meaning_is_refused_by_name(given, code, where):
    _, errors = read_config(FileSinkConfig, {**S3, **given})
    assert [(error.code, error.config_path) for error in errors] == [(code, where)]


def test_keys_that_do_nothing_beside_others_are_told():
    field = {"partitioner.class": "FieldPartitioner", "partition.field.name": "a"}
    timed = {"path.format": DAY, "timestamp.field": "at", "locale": "en"}
    told = parse_config(FileSinkConfig, {**S3, **field, **timed}).unused_keys()
    assert set(told) == {"path.format", "timestamp.field", "locale"}
    hourly = {"partitioner.class": "HourlyPartitioner", "partition.field.name": "a"}
    told = parse_config(FileSinkConfig, {**S3, **hourly, **timed}).unused_keys()
    assert set(told) == {"path.format", "timestamp.field", "locale", "partition.field.name"}


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (DAY, "year=2026/month=01/day=02"),
        ("'dt'=yyyy-MM-dd'T'HH", "dt=2026-01-02T15"),
        ("yy/M/d/H/m/s/SSS", "26/1/2/15/4/5/678"),
        ("hh a, kk, KK", "03 PM, 15, 03"),
        ("EEE EEEE MMM MMMM", "Fri Friday Jan January"),
        ("xxxx-'W'ww-e/DDD", "2026-W01-5/002"),
        ("'it''s'/''", "it's/'"),
    ],
)
def test_letters_mean_what_they_do_in_joda(pattern, text):
    assert PathFormat.parse(pattern).text(AT) == text


def folders(writer, tmp_path, rows, **keys):
    """The folders of files, and how many lines each has."""
    made = writer(path="out", format="jsonl", **keys)
    made.write(rows)
    found = {}
    for file in (tmp_path / "out").rglob("*.jsonl"):
        name = str(file.parent.relative_to(tmp_path / "out"))
        found[name] = found.get(name, 0) + len(file.read_text().splitlines())
    return found


def test_rows_go_to_folders_of_a_column_in_a_zone(writer, tmp_path):
    zoned = pa.array([AT, AT.replace(hour=23), None], pa.timestamp("us", "UTC"))
    rows = pa.record_batch({"n": [1, 2, 3], "at": zoned})
    keys = {"path_format": f"{DAY}/HH-mm", "timestamp_extractor": "RecordField"}
    more = {"timestamp_field": "at", "timezone": "Europe/Berlin", "partition_duration_ms": 600_000}
    assert folders(writer, tmp_path, rows, **keys, **more) == {
        "year=2026/month=01/day=02/16-00": 1,
        "year=2026/month=01/day=03/00-00": 1,
        "__HIVE_DEFAULT_PARTITION__": 1,
    }


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1_767_366_245_678),
        (pa.timestamp("ns"), AT),
        (pa.timestamp("s", "UTC"), AT.replace(microsecond=0)),
        (pa.date32(), AT.date()),
    ],
)
def test_every_type_that_tells_a_time_names_folders(writer, tmp_path, kind, value):
    rows = pa.record_batch({"timestamp": pa.array([value], kind)})
    keys = {"partitioner_class": "DailyPartitioner", "timestamp_extractor": "RecordField"}
    assert folders(writer, tmp_path, rows, **keys) == {"year=2026/month=01/day=02": 1}


def test_the_time_of_a_message_names_folders(writer, tmp_path):
    micros = int(AT.replace(tzinfo=dt.UTC).timestamp() * 1e6)
    rows = pa.record_batch({"n": [1], "__ts_us": pa.array([micros], pa.int64())})
    keys = {"partitioner_class": "HourlyPartitioner", "timestamp_extractor": "Record"}
    assert folders(writer, tmp_path, rows, **keys) == {"year=2026/month=01/day=02/hour=15": 1}
    with pytest.raises(SchemaError, match="no time of a message"):
        folders(writer, tmp_path, [{"n": 1}], **keys)


def test_a_column_that_tells_no_time_is_refused(writer, tmp_path):
    keys = {"path_format": DAY, "timestamp_extractor": "RecordField"}
    for rows in ([{"timestamp": "2026-01-02"}], [{"n": 1}]):
        with pytest.raises(SchemaError) as caught:
            folders(writer, tmp_path, rows, **keys)
        assert caught.value.code == "file.partition_column"


def test_the_time_of_writing_names_folders(writer, tmp_path):
    before = dt.datetime.now(dt.UTC)
    (name,) = folders(writer, tmp_path, [{"n": 1}], path_format="yyyy-MM-dd")
    assert name in {f"{before:%Y-%m-%d}", f"{dt.datetime.now(dt.UTC):%Y-%m-%d}"}


def test_blocks_of_avro_are_packed_by_bzip2(writer, tmp_path):
    writer(path="out", format="avro", compression="bzip2").write([{"n": 1}, {"n": 2}])
    (file,) = (tmp_path / "out").glob("*.avro")
    with file.open("rb") as opened:
        reader = fastavro.reader(opened)
        assert (reader.codec, list(reader)) == ("bzip2", [{"n": 1}, {"n": 2}])


# ── a real store ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def server():
    with S3Server() as server:
        yield server


def test_objects_are_laid_out_as_the_s3_sink_does(writing, server):
    from penstock_builtin.places.s3_keys import S3Url
    from penstock_builtin.places.s3_store import S3Store

    base = {
        "s3.bucket.name": "topics", "store.url": server.endpoint, "flush.size": "2",
        "aws.access.key.id": ACCESS, "aws.secret.access.key": SECRET,
    }  # fmt: skip
    timed = {
        "format.class": "JsonFormat", "path.format": DAY, "timestamp.extractor": "RecordField",
        "timestamp.field": "at", "s3.compression.type": "gzip",
    }  # fmt: skip
    plain = {
        "format.class": "ParquetFormat", "topics.dir": "lake",
        "partitioner.class": "DefaultPartitioner", "filename.offset.zero.pad.width": "4",
    }  # fmt: skip
    rows = [{"at": AT, "n": n} for n in range(3)]
    config = parse_config(FileSinkConfig, {**base, **timed})
    first = writing(config, "mine-0")
    first.write(rows, dataset="orders")
    writing(parse_config(FileSinkConfig, {**base, **plain}), "mine-1").write(rows, dataset="orders")
    store = S3Store(S3Url("s3", "topics", ""), config.access("s3://"))
    try:
        names = [s.key for s in store.listed("") if s.key != "started"]
        shapes = [
            r"lake/orders/partition=1/orders\+mine-1\+0001-.*\.snappy\.parquet",
            r"topics/orders/year=2026/month=01/day=02/orders\+mine-0\+0000000001-.*\.json\.gz",
        ]
        for shape in shapes:
            assert len([name for name in names if re.fullmatch(shape, name)]) == 2
        first.begin()
        first.stage(rows, dataset="orders")  # a crash: nobody ends these
        assert list(store.unfinished("topics/"))
        again = writing(config, "mine-0", epoch=2)
        again.sink.sweep(1)
        assert list(store.unfinished("topics/")) == []
    finally:
        store.close()
