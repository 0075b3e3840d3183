"""Keys of Confluent's S3 and HDFS sinks, by which their configurations load.

What they say is said by the sink's own keys, too: `translated` has which. Their names are those of
kafka-connect-storage-common, kafka-connect-storage-cloud and kafka-connect-hdfs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock_builtin.file_sink.path_format import RECORD_TIME, PathFormat, TimePath
from penstock_connector import CompatibilityKey, ConfigError, key

_FORMATS: Final = {
    "JsonFormat": "jsonl", "AvroFormat": "avro", "ParquetFormat": "parquet",
    "ByteArrayFormat": "text", "StringFormat": "text",
}  # fmt: skip
_PARTITIONERS: Final = (
    "DefaultPartitioner", "FieldPartitioner", "TimeBasedPartitioner", "DailyPartitioner",
    "HourlyPartitioner",
)  # fmt: skip
_DAILY: Final = "'year'=YYYY/'month'=MM/'day'=dd"
_FIXED: Final = {
    "DailyPartitioner": (_DAILY, 86_400_000),
    "HourlyPartitioner": (f"{_DAILY}/'hour'=HH", 3_600_000),
}
_EXTRACTORS: Final = ("Wallclock", "Record", "RecordField")
_CODECS: Final = {"null": "none", "deflate": "gzip"}

_SECURE: Final = "encryption and rights of objects are the bucket's here"
_KERBEROS: Final = "Kerberos is not supported"
_HIVE: Final = "no table of Hive is kept"
_VALUES: Final = "only the value of a row is written"

AS_HERE: Final[Mapping[str, tuple[str, ...]]] = {
    "allow.optional.map.keys": ("false",),
    "behavior.on.null.values": ("fail",),
    "directory.delim": ("/",),
    "file.delim": ("+",),
    "hdfs.authentication.kerberos": ("false",),
    "hive.integration": ("false",),
    "rotate.file.on.partition.change": ("false",),
    "s3.object.tagging": ("false",),
    "schema.compatibility": ("NONE",),
    "store.kafka.headers": ("false",),
    "store.kafka.keys": ("false",),
    "report.null.values.to.dlq": ("true",),
    "storage.class": (
        "io.confluent.connect.s3.storage.S3Storage",
        "io.confluent.connect.hdfs.storage.HdfsStorage",
        "io.confluent.connect.hdfs3.storage.HdfsStorage",
    ),
}
"""Values that say what is so anyway; others are refused, or without effect, as below."""

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "connect.meta.data": "schemas in Avro have what `file-sink` says of their columns",
    "enhanced.avro.schema.support": "enums and packages have no place in rows",
    "enable.conditional.writes": "nothing is overwritten: no two files have one name",
    "format.bytearray.extension": "files of `ByteArrayFormat` end with .bin",
    "hadoop.home": "no program of Hadoop is started",
    "logs.dir": "there is no log beside the files: the offsets are where the host keeps them",
    "max.files.scan.limit": "no names are scanned for offsets",
    "max.write.duration.ms": "the time of a transaction is bounded by the host",
    "partitioner.max.open.files": "at most 32 files of an attempt are open",
    "retry.backoff.ms": "calls are tried again for 45 s, then the task (`restart.max`)",
    "s3.compression.level": "compression has its default level",
    "s3.elastic.buffer.enable": "parts are 5 MiB in memory",
    "s3.elastic.buffer.init.capacity": "parts are 5 MiB in memory",
    "s3.http.send.expect.continue": "requests are those of another client",
    "s3.part.retries": "calls are tried again for 45 s, then the task (`restart.max`)",
    "s3.part.size": "parts are 5 MiB, the fewest that a store takes",
    "s3.retry.backoff.ms": "calls are tried again for 45 s, then the task (`restart.max`)",
    "s3.schema.partition.affix.type": "no version of a schema is in names",
    "s3.send.digest": "parts always have one",
    "schema.compatibility": "`schema.evolution` says what becomes of other columns",
    "schema.cache.size": "schemas are those of batches",
    "schemas.cache.config": "schemas are those of batches",
    "shutdown.timeout.ms": "the host bounds it",
    "storage.class": "`path`, `s3.bucket.name` and `hdfs.url` say where files are",
    "tombstone.encoded.partition": "rows that delete others are not written",
}

REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "allow.optional.map.keys": (_VALUES, "Leave it out."),
    "behavior.on.null.values": (
        "a row that deletes another is refused one by one (`file.change`)",
        "Set `errors.tolerance=all`, or drop such rows with Filter and RecordIsTombstone.",
    ),
    "connect.hdfs.keytab": (_KERBEROS, "Set `hdfs.user`, and leave it out."),
    "connect.hdfs.principal": (_KERBEROS, "Set `hdfs.user`, and leave it out."),
    "directory.delim": ("folders are parted by a slash", "Leave it out."),
    "file.delim": ("names are parted by a plus sign", "Leave it out."),
    "format.bytearray.separator": ("rows end with LF", "Leave it out."),
    "hdfs.authentication.kerberos": (_KERBEROS, "Set it to false, and `hdfs.user`."),
    "hdfs.namenode.principal": (_KERBEROS, "Set `hdfs.user`, and leave it out."),
    "headers.format.class": (_VALUES, "Leave it out; HeaderTo of a transform makes columns."),
    "hive.conf.dir": (_HIVE, "Leave it out; declare the table over the folders."),
    "hive.database": (_HIVE, "Leave it out; declare the table over the folders."),
    "hive.home": (_HIVE, "Leave it out; declare the table over the folders."),
    "hive.integration": (_HIVE, "Set it to false; declare the table over the folders."),
    "hive.metastore.uris": (_HIVE, "Leave it out; declare the table over the folders."),
    "hive.table.name": (_HIVE, "Leave it out; declare the table over the folders."),
    "json.decimal.format": ("decimals are numbers with all their digits", "Leave it out."),
    "kerberos.ticket.renew.period.ms": (_KERBEROS, "Leave it out."),
    "keys.format.class": (_VALUES, "Leave it out."),
    "report.null.values.to.dlq": (
        "refused rows go to the dead letters",
        "Leave it out; `errors.tolerance` says what becomes of them.",
    ),
    "rotate.file.on.partition.change": (
        "every folder has files of its own",
        "Leave it out.",
    ),
    "s3.acl.canned": (_SECURE, "Leave it out, and set it for the bucket."),
    "s3.credentials.provider.class": (
        "classes of Java are not loaded",
        "Set `s3.credentials` to instance, container, web-identity or profile.",
    ),
    "s3.object.behavior.on.tagging.error": (_SECURE, "Leave it out."),
    "s3.object.tagging": (_SECURE, "Set it to false."),
    "s3.object.tagging.key.value.pairs": (_SECURE, "Leave it out."),
    "s3.proxy.password": ("no proxy is used", "Leave it out; set `s3.endpoint`."),
    "s3.proxy.url": ("no proxy is used", "Leave it out; set `s3.endpoint`."),
    "s3.proxy.user": ("no proxy is used", "Leave it out; set `s3.endpoint`."),
    "s3.sse.customer.key": (_SECURE, "Leave it out, and set it for the bucket."),
    "s3.sse.kms.key.id": (_SECURE, "Leave it out, and set it for the bucket."),
    "s3.ssea.name": (_SECURE, "Leave it out, and set it for the bucket."),
    "s3.wan.mode": (
        "S3 Transfer Acceleration is not used",
        "Set `s3.endpoint` to the bucket's own address.",
    ),
    "store.kafka.headers": (_VALUES, "Set it to false; HeaderTo of a transform makes columns."),
    "store.kafka.keys": (_VALUES, "Set it to false."),
    "topic.capture.groups.regex": (
        "only ${topic} varies a folder",
        "Leave it out; rename topics with RegexRouter.",
    ),
}


def storage_key(name: str, value: str) -> CompatibilityKey | None:
    """Return what becomes of a key of Confluent's sinks; None when they have none such."""
    same = {one.lower() for one in AS_HERE.get(name, ())}
    if value.strip().lower() in same:
        return CompatibilityKey()
    if name in WITHOUT_EFFECT:
        return CompatibilityKey(WITHOUT_EFFECT[name])
    if name in REFUSED:
        why, fix = REFUSED[name]
        return CompatibilityKey(why, fix, refused=True)
    return None


@dataclass(frozen=True)
class StorageKeys:
    """Where and how Confluent's sinks write."""

    s3_bucket_name: str = key(
        "", doc="Bucket, instead of `path`; Confluent's key. Files are as Confluent's are named."
    )
    hdfs_url: str = key("", doc="HDFS, instead of `path`: `hdfs://host:port`; Confluent's key.")
    store_url: str = key(
        "", doc="As `hdfs.url`; beside `s3.bucket.name` as `s3.endpoint`. Confluent's key."
    )
    topics_dir: str = key("", doc="Folder in it; Confluent's key. Empty: `topics`.")
    aws_access_key_id: str = key("", type="password", doc="As `s3.access.key`; Confluent's key.")
    aws_secret_access_key: str = key(
        "", type="password", doc="As `s3.secret.key`; Confluent's key."
    )
    s3_path_style_access_enabled: bool | None = key(
        doc="As `s3.path.style`; Confluent's key.", type="boolean"
    )
    format_class: str = key(
        "",
        doc="As `format`, by Confluent's classes: JsonFormat, AvroFormat, ParquetFormat, "
        "ByteArrayFormat, StringFormat.",
    )
    flush_size: int = key(
        0, doc="As `rotate.rows`; Confluent's key. Files also end with their transaction."
    )
    rotate_interval_ms: int = key(
        -1, doc="Time between two commits, unless `flush.interval` is set; Confluent's key."
    )
    rotate_schedule_interval_ms: int = key(
        -1, doc="As `rotate.interval.ms`; the shorter one counts. Confluent's key."
    )
    filename_offset_zero_pad_width: int = key(
        10, doc="Digits of the number of a transaction in Confluent's names of files."
    )
    partitioner_class: str = key(
        "",
        doc="Folders by Confluent's classes: DefaultPartitioner, FieldPartitioner, "
        "TimeBasedPartitioner, DailyPartitioner, HourlyPartitioner.",
    )
    partition_field_name: tuple[str, ...] = key((), doc="Columns of FieldPartitioner.")
    path_format: str = key(
        "",
        doc="Folders by time, in Joda's letters: 'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH.",
    )
    partition_duration_ms: int = key(
        -1, doc="Times of `path.format` are cut to so many ms; -1: as they are."
    )
    timezone: str = key("", doc="As `partition.zone`; Confluent's key.")
    locale: str = key("", doc="Language of names of months and days in `path.format`: English.")
    timestamp_extractor: str = key(
        "",
        doc="Whose time `path.format` is of: Wallclock (of writing), Record (of the message), "
        "RecordField (of `timestamp.field`).",
    )
    timestamp_field: str = key(
        "", doc="Column of RecordField: a time, or ms of Unix time. Empty: `timestamp`."
    )
    s3_compression_type: str = key(
        "", doc="As `compression` of JSON and text; Confluent's key.", choices=("", "none", "gzip")
    )
    parquet_codec: str = key("", doc="As `compression` of Parquet; Confluent's key.")
    avro_codec: str = key("", doc="As `compression` of Avro; Confluent's key.")

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of Confluent's sinks that is none here."""
        return storage_key(name, value)

    @property
    def has_storage_place(self) -> bool:
        """Whether Confluent's keys say where files are, and so how they are named."""
        return bool(self.s3_bucket_name or self.hdfs_url or self.store_url)

    @property
    def commit_seconds(self) -> float:
        """Wanted time between commits; 0: not said."""
        said = [ms for ms in (self.rotate_interval_ms, self.rotate_schedule_interval_ms) if ms > 0]
        return min(said, default=0) / 1000

    @property
    def partitioner(self) -> str:
        """The class's own name; that of a time where `path.format` is set alone."""
        if self.partitioner_class:
            return self.partitioner_class.rpartition(".")[2]
        return "TimeBasedPartitioner" if self.path_format else ""

    @property
    def time_path(self) -> TimePath | None:
        """Folders by time, where they are wanted."""
        name = self.partitioner
        if not name.endswith(("TimeBasedPartitioner", "DailyPartitioner", "HourlyPartitioner")):
            return None
        pattern, duration = _FIXED.get(name, (self.path_format, self.partition_duration_ms))
        extractor = _simple(self.timestamp_extractor, "TimestampExtractor") or "Wallclock"
        column = {"Wallclock": "", "Record": RECORD_TIME}.get(
            extractor, self.timestamp_field or "timestamp"
        )
        parsed = PathFormat.parse(pattern.removesuffix("/"))
        return TimePath(parsed, column, max(duration, 0) / 1000)

    def translated(self, own: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return values of the sink's own keys that these mean, by the names of their fields.

        Args:
            own: Values of the sink's own keys.
            defaults: What they are when they are not set.

        Raises:
            ConfigError: one says nothing, or something else than an own one.
        """
        self._refuse_unknown()
        meant = self._meant(str(own["format"]))
        for field, (value, by) in meant.items():
            if own[field] != defaults[field] and own[field] != value:
                name = field.replace("_", ".")
                raise ConfigError(
                    "config.contradiction",
                    f"`{by}` and `{name}` say different things",
                    fix=f"Leave out one of them; `{name}` is the sink's own key.",
                    config_path=by,
                )
        return {field: value for field, (value, _) in meant.items()}

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing beside the others, and why."""
        unused: dict[str, str] = {}
        timed = self.time_path
        no_time = "no folders are named by a time (`partitioner.class`)"
        for name, is_set in (
            ("path.format", bool(self.path_format)),
            ("partition.duration.ms", self.partition_duration_ms > 0),
            ("timestamp.extractor", bool(self.timestamp_extractor)),
            ("timestamp.field", bool(self.timestamp_field)),
            ("locale", bool(self.locale)),
        ):
            if is_set and timed is None:
                unused[name] = no_time
        if timed is not None and self.partitioner in _FIXED:
            named = f"{self.partitioner} has its own"
            for name, is_set in (
                ("path.format", bool(self.path_format)),
                ("partition.duration.ms", self.partition_duration_ms > 0),
            ):
                if is_set:
                    unused[name] = named
        if timed is not None and self.timestamp_field and timed.column != self.timestamp_field:
            unused["timestamp.field"] = "`timestamp.extractor` is not RecordField"
        if timed is not None and self.locale and not timed.format.has_words:
            unused["locale"] = "`path.format` has no names of months or days"
        if self.partition_field_name and self.partitioner != "FieldPartitioner":
            unused["partition.field.name"] = "`partitioner.class` is not FieldPartitioner"
        return unused

    def _meant(self, form: str) -> dict[str, tuple[Any, str]]:
        meant: dict[str, tuple[Any, str]] = {}
        if self.has_storage_place:
            by = "s3.bucket.name" if self.s3_bucket_name else "hdfs.url"
            by = by if self.s3_bucket_name or self.hdfs_url else "store.url"
            meant["path"] = (self._path(), by)
        if self.s3_bucket_name and self.store_url:
            meant["s3_endpoint"] = (self.store_url, "store.url")
        if self.format_class:
            form = _FORMATS[_simple(self.format_class)]
            meant["format"] = (form, "format.class")
        for field, by, value in (
            ("s3_access_key", "aws.access.key.id", self.aws_access_key_id),
            ("s3_secret_key", "aws.secret.access.key", self.aws_secret_access_key),
            ("partition_zone", "timezone", self.timezone),
            ("rotate_rows", "flush.size", self.flush_size),
            ("s3_path_style", "s3.path.style.access.enabled", self.s3_path_style_access_enabled),
        ):
            if value or value is False:
                meant[field] = (value, by)
        codec, by = {
            "parquet": (self.parquet_codec, "parquet.codec"),
            "avro": (self.avro_codec, "avro.codec"),
        }.get(form, (self.s3_compression_type, "s3.compression.type"))
        if codec:
            meant["compression"] = (_CODECS.get(codec, codec), by)
        elif self.has_storage_place and form == "avro":
            meant["compression"] = ("none", "avro.codec")  # Confluent's default
        if self.partitioner == "FieldPartitioner":
            meant["partition_by"] = (self.partition_field_name, "partition.field.name")
            meant["partition_keep"] = (True, "partitioner.class")
        return meant

    def _path(self) -> str:
        root = (self.hdfs_url or self.store_url).rstrip("/")
        if self.s3_bucket_name:
            root = f"s3://{self.s3_bucket_name}"
        path = f"{root}/{self.topics_dir.strip('/') or 'topics'}/${{topic}}"
        if self.partitioner in {"", "DefaultPartitioner"}:
            path += "/partition=${task}"
        return path

    def _refuse_unknown(self) -> None:
        for name, value, known in (
            ("format.class", _simple(self.format_class), tuple(_FORMATS)),
            ("partitioner.class", _simple(self.partitioner_class), _PARTITIONERS),
            ("timestamp.extractor", _simple(self.timestamp_extractor, "TimestampExtractor"),
             _EXTRACTORS),
        ):  # fmt: skip
            if value and value not in known:
                raise ConfigError(
                    "config.invalid_choice",
                    f"{name!r} is not one of its choices: {value!r}",
                    fix=f"Set one of {', '.join(known)}; other classes of Java are not loaded.",
                    config_path=name,
                )
        for text, why, name in (
            (self.hdfs_url and self.s3_bucket_name, "a bucket is named, too", "hdfs.url"),
            (self.topics_dir and not self.has_storage_place,
             "`path` has the whole folder", "topics.dir"),
            (self.locale and self.locale.partition("_")[0] != "en" and self.time_path
             and self.time_path.format.has_words, "names of months and days are English",
             "locale"),
            (self.partitioner == "FieldPartitioner" and not self.partition_field_name,
             "FieldPartitioner needs the columns", "partition.field.name"),
            (self.partitioner == "TimeBasedPartitioner" and not self.path_format,
             "TimeBasedPartitioner needs a format", "path.format"),
            (self.partitioner == "DefaultPartitioner" and not self.has_storage_place,
             "DefaultPartitioner needs `s3.bucket.name` or `hdfs.url`", "partitioner.class"),
            (self.flush_size < 0 or not 0 <= self.filename_offset_zero_pad_width <= 64,
             "the number is out of range", "flush.size"),
        ):  # fmt: skip
            if text:
                raise ConfigError(
                    "config.contradiction",
                    f"`{name}`: {why}",
                    fix=f"Correct or leave out `{name}`, or what it belongs to.",
                    config_path=name,
                )


def _simple(name: str, ending: str = "") -> str:
    """Return the own name of a class of Java."""
    return name.rpartition(".")[2].rpartition("$")[2].removesuffix(ending)
