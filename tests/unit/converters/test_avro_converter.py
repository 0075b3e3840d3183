"""Messages with the id of their schema: groups of them, their order, and what the registry says."""

import io
import json
import re
from dataclasses import dataclass, field

import fastavro
import pyarrow as pa
import pytest

from penstock_converters import InvalidConverterError, SchemaRefusedError
from penstock_converters.registry import create_converter, unused_keys
from penstock_converters.schema_registry import schemas as schemas_of_registry
from penstock_converters.schema_registry.client import NotThereError, Reference, RegisteredSchema

URL = {"schema.registry.url": "http://registry:8081"}


@dataclass
class Schemas:
    """A registry in memory, which counts what it is asked."""

    by_id: dict = field(default_factory=dict)
    subjects: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)

    def add(self, schema, number, references=()):
        self.by_id[number] = RegisteredSchema("AVRO", json.dumps(schema), tuple(references), number)

    def schema_by_id(self, number):
        self.asked.append(number)
        if number not in self.by_id:
            raise NotThereError(number)
        return self.by_id[number]

    def schema_by_version(self, subject, version):
        self.asked.append(subject)
        if subject not in self.subjects:
            raise NotThereError(subject)
        return self.by_id[self.subjects[subject]]

    def register(self, subject, schema, *, normalize):
        self.asked.append((subject, normalize))
        number = len(self.by_id) + 1
        self.by_id[number] = schema
        self.subjects[subject] = number
        return number

    def find(self, subject, schema, *, normalize):
        self.asked.append(subject)
        number = self.subjects.get(subject)
        if number is None or self.by_id[number].text != schema.text:
            raise NotThereError(subject)
        return number

    def close(self):
        pass


@pytest.fixture
def schemas(monkeypatch):
    found = Schemas()
    monkeypatch.setattr(schemas_of_registry, "RegistryClient", lambda *_: found)
    return found


def message(schema, number, value):
    into = io.BytesIO()
    fastavro.schemaless_writer(into, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\0" + number.to_bytes(4, "big") + into.getvalue()


def record(*names):
    fields = [{"name": name, "type": "string"} for name in names]
    return {"type": "record", "name": "R", "fields": fields}


ONE, TWO = record("a"), record("a", "b")


def test_neighbours_of_one_schema_are_a_run_in_their_order(schemas):
    schemas.add(ONE, 1)
    schemas.add(TWO, 2)
    schemas.add(ONE, 3)  # another id of the same columns
    made = create_converter("avro", URL, is_key=True)
    data = [
        None, message(ONE, 1, {"a": "x"}), message(ONE, 3, {"a": "y"}), None, b"\0\0\0\0\x02\xff",
        message(TWO, 2, {"a": "z", "b": "b"}), message(ONE, 1, {"a": "w"}), b"{}", b"\0\0\0\0\x09x",
    ]  # fmt: skip
    found = made.decode(pa.array(data, pa.binary()), "t")
    assert [(list(run.rows), run.column.to_pylist()) for run in found.runs] == [
        ([0, 1, 2, 3], [None, {"a": "x"}, {"a": "y"}, None]),
        ([5], [{"a": "z", "b": "b"}]),
        ([6], [{"a": "w"}]),
    ]
    assert [run.field.nullable for run in found.runs] == [True, False, False]
    assert [(row, problem.code) for row, problem in found.rejected] == [
        (4, "converter.value"), (7, "converter.not_framed"), (8, "converter.unknown_schema"),
    ]  # fmt: skip
    assert sorted(schemas.asked) == [1, 2, 3, 9]
    made.decode(pa.array(data, pa.binary()), "t")
    assert sorted(schemas.asked) == [1, 2, 3, 9], "all is remembered, also what is not there"


def test_values_of_several_schemas_have_all_columns(schemas):
    fields = [{"name": "c", "type": ["null", "int"]}, {"name": "a", "type": ["null", "string"]}]
    three = {"type": "record", "name": "R", "fields": fields}
    for number, schema in ((1, ONE), (2, TWO), (3, three)):
        schemas.add(schema, number)
    data = [
        message(TWO, 2, {"a": "1", "b": "b"}), message(ONE, 1, {"a": "2"}), None, b"",
        message(three, 3, {"a": None, "c": 5}), message(ONE, 1, {"a": "4"}),
    ]  # fmt: skip
    found = create_converter("avro", URL).decode(pa.array(data, pa.binary()), "t")
    (run,) = found.runs
    run.column.validate(full=True)
    assert list(run.rows) == [0, 1, 2, 4, 5]
    none = {"a": None, "b": None, "c": None}
    there = [{"a": "1", "b": "b"}, {"a": "2"}, None, {"c": 5}, {"a": "4"}]
    assert run.column.to_pylist() == [one and none | one for one in there]
    nullable = {one.name: one.nullable for one in run.field.type.fields}
    assert nullable == {"a": True, "b": True, "c": True}


def test_values_whose_columns_contradict_each_other_are_runs(schemas):
    other = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "boolean"}]}
    schemas.add(ONE, 1)
    schemas.add(other, 2)
    data = [message(ONE, 1, {"a": "x"}), message(other, 2, {"a": True})] * 2
    found = create_converter("avro", URL).decode(pa.array(data, pa.binary()), "t")
    assert [list(run.rows) for run in found.runs] == [[0], [1], [2], [3]]


@pytest.mark.parametrize("data", [[], [None], [None, None], [b""], [b"\0\0"], [None, b"x"]])
def test_batches_without_values_are_read(schemas, data):
    found = create_converter("avro", URL).decode(pa.array(data, pa.binary()), "t")
    rows = [row for run in found.runs for row in run.rows] + [row for row, _ in found.rejected]
    assert sorted(rows) == list(range(len(data)))


def test_a_part_of_a_column_is_read_by_itself(schemas):
    schemas.add(ONE, 1)
    whole = pa.array([message(ONE, 1, {"a": name}) for name in "abcd"], pa.binary())
    found = create_converter("avro", URL).decode(whole.slice(1, 2), "t")
    assert found.runs[0].column.to_pylist() == [{"a": "b"}, {"a": "c"}]


def test_bytes_that_are_no_ids_do_not_ask_for_each(schemas):
    schemas.add(ONE, 5000)
    good = message(ONE, 5000, {"a": "x"})
    data = pa.array([*(b"\0" + n.to_bytes(4, "big") for n in range(1000)), good, good])
    found = create_converter("avro", URL).decode(data, "t")
    assert len(found.rejected) == 1000
    assert found.runs[0].rows == [1000, 1001], "what most messages have is asked for first"
    assert len(schemas.asked) == 501


def test_a_schema_that_cannot_be_columns_rejects_its_messages(schemas):
    schemas.add(
        {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}, 1
    )
    schemas.by_id[2] = RegisteredSchema("JSON", "{}", (), 2)
    data = pa.array([b"\0\0\0\0\x01\0", b"\0\0\0\0\x02\0"])
    found = create_converter("avro", URL).decode(data, "t")
    assert [problem.code for _, problem in found.rejected] == ["converter.schema"] * 2


def test_what_a_schema_refers_to_is_read_first(schemas):
    schemas.add({"type": "record", "name": "n.Leaf", "fields": [{"name": "x", "type": "int"}]}, 1)
    middle = {"type": "record", "name": "n.Mid", "fields": [{"name": "l", "type": "n.Leaf"}]}
    schemas.add(middle, 2, [Reference("n.Leaf", "leaf", 1)])
    top = {"type": "record", "name": "n.Top", "fields": [
        {"name": "m", "type": "Mid"}, {"name": "l", "type": "Leaf"}]}  # fmt: skip
    schemas.add(top, 3, [Reference("n.Mid", "mid", 1), Reference("n.Leaf", "leaf", 1)])
    schemas.subjects.update(leaf=1, mid=2)
    found = create_converter("avro", URL).decode(pa.array([b"\0\0\0\0\x03\x02\x04"]), "t")
    assert found.runs[0].column.to_pylist() == [{"m": {"l": {"x": 1}}, "l": {"x": 2}}]


COLUMN = pa.struct([pa.field("a", pa.string(), nullable=False)])
FIELD = pa.field("value", COLUMN, nullable=False)


def test_rows_are_messages_of_the_schema_of_their_subject(schemas):
    made = create_converter("io.confluent.connect.avro.AvroConverter", URL)
    values = pa.array([{"a": "x"}, None, {"a": "y"}], COLUMN)
    encoded = made.encode(values, FIELD, "orders")
    assert schemas.asked == [("orders-value", False)]
    assert encoded.column.to_pylist() == [b"\0\0\0\0\x01\x02x", None, b"\0\0\0\0\x01\x02y"]
    made.encode(values, FIELD, "orders")
    assert len(schemas.asked) == 1, "the id is remembered"
    (run,) = made.decode(encoded.column, "orders").runs
    assert run.column.equals(values)


def test_a_row_that_the_schema_cannot_hold_is_rejected_alone(schemas):
    made = create_converter("avro", URL)
    values = pa.array([None, {"a": "x"}, {"a": None}, {"a": "y"}], pa.struct([("a", pa.string())]))
    encoded = made.encode(values, FIELD, "t")
    assert [(row, problem.code) for row, problem in encoded.rejected] == [
        (2, "converter.not_exact")
    ]
    assert encoded.column.to_pylist() == [None, b"\0\0\0\0\x01\x02x", None, b"\0\0\0\0\x01\x02y"]


@pytest.mark.parametrize(
    ("is_key", "strategy", "subject"),
    [
        (False, "TopicNameStrategy", "t-value"), (True, "TopicNameStrategy", "t-key"),
        (True, "io.confluent.kafka.serializers.subject.RecordNameStrategy", "n.R"),
        (False, "TopicRecordNameStrategy", "t-n.R"),
    ],
)  # fmt: skip
def test_subjects_are_named_by_their_strategy(schemas, is_key, strategy, subject):
    side = "key" if is_key else "value"
    made = create_converter(
        "avro", URL | {f"{side}.subject.name.strategy": strategy}, is_key=is_key
    )
    named = FIELD.with_metadata({"connect.name": '"n.R"'})
    made.encode(pa.array([], COLUMN), named, "t")
    assert schemas.asked == [(subject, False)]
    if strategy.endswith("RecordNameStrategy"):
        with pytest.raises(SchemaRefusedError, match="no records"):
            made.encode(pa.array([1]), pa.field("value", pa.int64()), "t")


LATEST = URL | {"auto.register.schemas": "false", "use.latest.version": "true"}


def test_rows_are_written_by_the_newest_schema(schemas):
    fields = [
        {"name": "b", "type": "int", "default": 7},
        {"name": "a", "type": ["null", "string"]},
    ]
    schemas.add({"type": "record", "name": "Old", "fields": fields}, 5)
    schemas.subjects["t-value"] = 5
    made = create_converter("avro", LATEST)
    assert made.encode(pa.array([{"a": "x"}], COLUMN), FIELD, "t").column.to_pylist() == [
        b"\0\0\0\0\x05\x0e\x02\x02x"
    ]
    more = pa.field("value", pa.struct([("a", pa.string()), ("new", pa.int64())]))
    with pytest.raises(SchemaRefusedError, match="has no field 'new'"):
        made.encode(pa.array([], more.type), more, "t")
    lenient = create_converter("avro", LATEST | {"latest.compatibility.strict": "false"})
    row = pa.array([{"a": "x", "new": 1}], more.type)
    assert lenient.encode(row, more, "t").column.to_pylist() == [b"\0\0\0\0\x05\x0e\x02\x02x"]
    by_id = URL | {"auto.register.schemas": "false", "use.schema.id": "5"}
    for key, count in (({}, 0), ({"id.compatibility.strict": "false"}, 1)):
        made = create_converter("avro", by_id | key)
        if count:
            assert made.encode(row, more, "t").column[0].as_py()[:5] == b"\0\0\0\0\x05"
        else:
            with pytest.raises(SchemaRefusedError):
                made.encode(row, more, "t")


def test_the_newest_schema_is_asked_for_again_after_its_time(schemas):
    schemas.add(ONE, 5)
    schemas.subjects["t-value"] = 5
    for ttl, count in (("-1", 1), ("0", 3), ("60", 1)):
        schemas.asked.clear()
        made = create_converter("avro", LATEST | {"latest.cache.ttl.sec": ttl})
        for _ in range(3):
            made.encode(pa.array([], COLUMN), FIELD, "t")
        assert len(schemas.asked) == count


@pytest.mark.parametrize("more", [{}, {"use.latest.version": "true"}, {"use.schema.id": "9"}])
def test_a_schema_that_is_not_there_is_not_registered(schemas, more):
    made = create_converter("avro", URL | {"auto.register.schemas": "false"} | more)
    with pytest.raises(SchemaRefusedError) as caught:
        made.encode(pa.array([], COLUMN), FIELD, "t")
    assert caught.value.code == "registry.not_registered"
    assert schemas.by_id == {}


def test_what_is_remembered_is_bounded(schemas):
    made = create_converter(
        "avro", URL | {"max.schemas.per.subject": "3", "schemas.cache.config": "2"}
    )
    for name in "abcdef":
        kind = pa.struct([(name, pa.string())])
        made.encode(pa.array([], kind), pa.field("value", kind), "t")
    for number in range(1, 7):
        made.decode(pa.array([b"\0" + number.to_bytes(4, "big")]), "t")
    caches = [
        made._readers, made._own, made._writers, made._registry._ids, made._registry._by_id,
    ]  # fmt: skip
    assert [len(cache) for cache in caches] == [2, 2, 2, 3, 3]


def test_defaults_fill_nulls_unless_they_are_ignored(schemas):
    inner = pa.field("n", pa.int64(), metadata={"connect.default": "5"})
    rows = pa.field("value", pa.struct([inner]), nullable=False)
    values = pa.array([{"n": None}, {"n": 1}], rows.type)
    filled = create_converter("avro", URL).encode(values, rows, "t").column.to_pylist()
    assert [one[5:] for one in filled] == [b"\0\x0a", b"\0\x02"]
    ignoring = create_converter("avro", URL | {"ignore.default.for.nullables": "true"})
    kept = ignoring.encode(values, rows, "t").column.to_pylist()
    assert [one[5:] for one in kept] == [b"\x02", b"\0\x02"]


BASIC, BEARER = "basic.auth.credentials.source", "bearer.auth.credentials.source"
STORE = "schema.registry.ssl.truststore"
ISSUED = {
    BEARER: "OAUTHBEARER", "bearer.auth.issuer.endpoint.url": "http://issuer/token",
    "bearer.auth.client.id": "c", "bearer.auth.client.secret": "geheim",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "path", "words"),
    [
        ({"schema.registry.url": ""}, "schema.registry.url", "not set"),
        ({"schema.registry.url": "registry:8081"}, "schema.registry.url", "http://host:port"),
        ({"schema.registry.url": "http://u:geheim@ho st"}, "schema.registry.url", "http://"),
        ({"auto.register.schemas": "yes"}, "auto.register.schemas", "true or false"),
        ({"max.schemas.per.subject": "0"}, "max.schemas.per.subject", "1 or more"),
        ({"value.subject.name.strategy": "Mine"}, "value.subject.name.strategy", "TopicName"),
        ({"basic.auth.user.info": "u:geheim"}, "basic.auth.user.info", "USER_INFO"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "basic.auth.user.info", "not set"),
        ({BASIC: "SASL_INHERIT"}, "sasl.jaas.config", "not set"),
        ({BASIC: "SASL_INHERIT", "sasl.jaas.config": "geheim"}, "sasl.jaas.config", "PlainLogin"),
        ({BASIC: "SASL_INHERIT", "sasl.jaas.config": 'a.B required password="geheim";'},
         "sasl.jaas.config", "to inherit"),
        ({BASIC: "KERBEROS"}, BASIC, "URL, USER_INFO, SASL_INHERIT"),
        ({BASIC: "URL", BEARER: "STATIC_TOKEN"}, BEARER, "one login"),
        ({BEARER: "CUSTOM"}, BEARER, "STATIC_TOKEN or OAUTHBEARER"),
        ({BEARER: "OAUTHBEARER"}, "bearer.auth.issuer.endpoint.url", "not set"),
        ({"bearer.auth.client.secret": "geheim"}, "bearer.auth.client.secret", "OAUTHBEARER"),
        (ISSUED | {"bearer.auth.issuer.endpoint.url": "https://u:geheim@h/"},
         "bearer.auth.issuer.endpoint.url", "without a user"),
        (ISSUED | {"bearer.auth.cache.expiry.buffer.seconds": "-1"},
         "bearer.auth.cache.expiry.buffer.seconds", "0 or more"),
        ({"proxy.host": "p", "proxy.port": "70000"}, "proxy.port", "a port"),
        ({f"{STORE}.type": "BKS"}, f"{STORE}.type", "JKS, JCEKS, PKCS12, PEM"),
        ({"generalized.sum.type.support": "true"}, "generalized.sum.type.support", "false"),
        ({"schema.registri.url": "x"}, "schema.registri.url", "Its keys are"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_by_its_key(config, path, words):
    with pytest.raises(InvalidConverterError, match=re.escape(words)) as caught:
        create_converter("avro", URL | config)
    assert caught.value.config_path == path
    assert "geheim" not in str(caught.value)


def test_schemas_of_rows_that_are_registered_come_before_others(schemas):
    """As in Confluent's serializers, which do not look at the other keys then."""
    more = {"use.latest.version": "true", "use.schema.id": "5"}
    made = create_converter("avro", URL | more)
    made.encode(pa.array([], COLUMN), FIELD, "t")
    assert schemas.asked == [("t-value", False)]
    assert set(unused_keys("avro", URL | more)) == more.keys()
    assert unused_keys("avro", URL | more | {"auto.register.schemas": "false"}) == {}
    assert unused_keys("avro", URL | {"use.schema.id": "-1", "proxy.port": "1"}).keys() == {
        "proxy.port"
    }
    assert unused_keys("json", more) == unused_keys("nobodys", more) == {}
