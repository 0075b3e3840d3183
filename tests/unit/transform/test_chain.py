"""A chain compiles Kafka Connect's keys to steps, and reports all errors at once."""

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError
from penstock.transform.configuration import build_chain
from penstock.transform.registry import PREDICATES_BY_NAME, TRANSFORMS_BY_NAME

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "__op": pa.int8()})
KAFKA = "org.apache.kafka.connect.transforms"
SLOW = "(a|aa)+$"


def one(type_, **keys):
    own = {f"transforms.t.{key.replace('_', '.')}": value for key, value in keys.items()}
    return {"transforms": "t", "transforms.t.type": type_} | own


def compiled(config, dataset="d", schema=SCHEMA):
    return build_chain(config).compile(dataset, schema)


def refused(config, schema=SCHEMA):
    with pytest.raises(ConfigError) as caught:
        compiled(config, schema=schema)
    return caught.value.diagnostic


def test_no_transforms_make_no_steps():
    assert compiled({"name": "n"}).steps == ()
    assert compiled({"transforms": ""}).dataset == "d"


def test_a_chain_can_be_cut_behind_each_transform():
    config = {
        "transforms": "keep,to,late",
        "transforms.keep.type": "Filter",
        "transforms.keep.condition": "id > 1",
        "transforms.to.type": "RegexRouter",
        "transforms.to.regex": "d",
        "transforms.to.replacement": "e",
        "transforms.late.type": "Filter",
        "transforms.late.condition": "id > 2",
    }
    chain = build_chain(config)
    assert chain.names == ("keep", "to", "late")
    found = [chain.until(name).compile("d", SCHEMA) for name in chain.names]
    assert [(one.dataset, len(one.steps)) for one in found] == [("d", 1), ("e", 1), ("e", 2)]
    assert found[2] == chain.compile("d", SCHEMA)


def test_steps_come_in_the_order_of_the_list():
    config = {
        "transforms": "b, a",
        "transforms.a.type": "Filter",
        "transforms.a.condition": "x = 'v'",
        "transforms.b.type": "InsertField",
        "transforms.b.static.field": "x",
        "transforms.b.static.value": "v",
    }
    insert, keep = compiled(config).steps
    assert keep.where == "x = 'v'"
    assert insert.select == (("id", "`id`"), ("name", "`name`"), ("x", "'v'"), ("__op", "`__op`"))


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        (f"{KAFKA}.Filter", "Filter"),
        (f"{KAFKA}.InsertField$Value", "InsertField"),
        (f"{KAFKA}.InsertField$Key", "InsertField$Key"),
        (f"{KAFKA}.ReplaceField$Value", "ReplaceField"),
        (f"{KAFKA}.ReplaceField$Key", "ReplaceField$Key"),
        (f"{KAFKA}.RegexRouter", "RegexRouter"),
    ],
)
def test_kafka_connects_names_are_aliases(alias, name):
    assert TRANSFORMS_BY_NAME[alias] is TRANSFORMS_BY_NAME[name]


@pytest.mark.parametrize("name", ["TopicNameMatches", "RecordIsTombstone", "HasHeaderKey"])
def test_kafka_connects_predicates_are_aliases(name):
    assert PREDICATES_BY_NAME[f"{KAFKA}.predicates.{name}"] is PREDICATES_BY_NAME[name]


@pytest.mark.parametrize(
    ("config", "path"),
    [
        (one("RegexRouter", regex=SLOW, replacement="x"), "transforms.t.regex"),
        (
            one("PatternRename", field_pattern=SLOW, field_replacement="x"),
            "transforms.t.field.pattern",
        ),
        (
            one("Filter", predicate="p")
            | {"predicates": "p", "predicates.p.type": "TopicNameMatches"}
            | {"predicates.p.pattern": SLOW},
            "predicates.p.pattern",
        ),
    ],
)
def test_a_pattern_that_takes_too_long_for_a_name_is_refused(config, path):
    name = "a" * 60 + "!"
    with pytest.raises(ConfigError) as caught:
        compiled(config, name, pa.schema({name: pa.int64()}))
    told = caught.value.diagnostic
    assert (told.code, told.config_path) == ("config.slow_pattern", path)


def test_a_predicate_over_names_is_decided_for_the_whole_dataset():
    config = one(f"{KAFKA}.Filter", predicate="p") | {
        "predicates": "p",
        "predicates.p.type": "TopicNameMatches",
        "predicates.p.pattern": "tmp-.*",
    }
    assert compiled(config, "orders").steps == ()
    (dropped,) = compiled(config, "tmp-1").steps
    assert dropped.where == "false"
    batch = pa.RecordBatch.from_pylist([{"id": 1}], SCHEMA)
    assert dropped.kernel(batch).num_rows == 0
    (negated,) = compiled(config | {"transforms.t.negate": "true"}, "orders").steps
    assert negated.where == "false"


def test_a_predicate_over_rows_has_no_kernel():
    config = one("InsertField", static_field="f", static_value="v", predicate="p")
    (step,) = compiled(config | {"predicates": "p", "predicates.p.type": "RecordIsTombstone"}).steps
    assert step.kernel is None
    assert dict(step.select)["f"].startswith("CASE WHEN (")
    assert dict(step.select)["id"] == "`id`"


def test_a_header_predicate_is_false_for_rows_without_headers():
    config = one("InsertField", static_field="f", static_value="v", predicate="p") | {
        "predicates": "p",
        "predicates.p.type": "HasHeaderKey",
        "predicates.p.name": "h",
    }
    assert compiled(config).steps == ()


def test_later_transforms_see_the_dataset_name_of_a_router():
    config = {
        "transforms": "r,i",
        "transforms.r.type": "RegexRouter",
        "transforms.r.regex": "(.*)-(\\d+)",
        "transforms.r.replacement": "$2.$1",
        "transforms.i.type": "InsertField",
        "transforms.i.topic.field": "topic",
    }
    routed = compiled(config, "orders-7")
    assert routed.dataset == "7.orders"
    assert dict(routed.steps[0].select)["topic"] == "'7.orders'"
    assert compiled(config, "orders-x").dataset == "orders-x"


def test_kernels_can_be_sent_to_executors():
    config = one("Project", columns="id, upper(name) AS u, length(name) AS n") | {
        "transforms": "t,f",
        "transforms.f.type": "Filter",
        "transforms.f.condition": "id in (1, 2) and not u like 'A_%' or id is null",
    }
    batch = pa.RecordBatch.from_pylist([{"id": 1, "name": "é"}, {"id": 2, "name": "ab"}], SCHEMA)
    for step in compiled(config).steps:
        batch = pickle.loads(pickle.dumps(step.kernel))(batch)
    assert batch.to_pylist() == [{"id": 1, "u": "É", "n": 1, "__op": None}]


def test_replace_field_ignores_names_that_a_dataset_does_not_have():
    assert compiled(one("ReplaceField", exclude="nope", renames="other:name")).steps == ()


def test_replace_field_excludes_before_it_includes_and_can_swap():
    (step,) = compiled(one("ReplaceField", include="id,name", exclude="id")).steps
    assert [name for name, _ in step.select] == ["name", "__op"]
    (step,) = compiled(one("ReplaceField", renames="id:name,name:id")).steps
    assert step.select == (("name", "`id`"), ("id", "`name`"), ("__op", "`__op`"))


def test_keys_of_members_that_are_not_listed_are_ignored():
    assert compiled({"transforms": "", "transforms.off.type": "Nonsense"}).steps == ()


def test_an_unused_predicate_is_allowed():
    assert compiled({"predicates": "p", "predicates.p.type": "RecordIsTombstone"}).steps == ()


def test_a_longer_name_owns_the_keys_that_start_with_it():
    config = one("Filter", condition="id = 1") | {
        "transforms": "t,t.x",
        "transforms.t.x.type": "Filter",
        "transforms.t.x.condition": "id = 2",
    }
    assert [step.where for step in compiled(config).steps] == ["id = 1", "id = 2"]


TOMBSTONE = {"predicates": "p", "predicates.p.type": "RecordIsTombstone"}


@pytest.mark.parametrize(
    ("config", "code", "path", "says"),
    [
        (one("Filtr", condition="x"), "transform.unknown_transform", "t.type", "`Filter`"),
        (one("Nonsense"), "transform.unknown_transform", "t.type", "`RegexRouter`"),
        ({"transforms": "t"}, "config.missing", "t.type", "type"),
        (one("Filter", conditon="x"), "config.unknown_key", "t.conditon", "`condition`"),
        (one("Filter"), "config.missing", "t.condition", "predicate"),
        (one("Filter", condition="ide = 1"), "transform.unknown_column", "t.condition", "`id`"),
        (one("Filter", condition="(id"), "transform.bad_expression", "t.condition", "one"),
        (one("Filter", condition=" "), "transform.bad_expression", "t.condition", "one"),
        (one("Filter", condition="id=1", negate="true"), "config.missing", "t.predicate", "negate"),
        (one("Filter", predicate="q"), "transform.unknown_predicate_name", "t.predicate", "List"),
        (one("RegexRouter", regex="a"), "config.missing", "t.replacement", "Set it"),
        (one("InsertField"), "config.missing", "t", "field"),
        (one("InsertField", static_field="f"), "config.missing", "t.static.value", "static.value"),
        (
            one("InsertField", topic_field="id"),
            "transform.duplicate_column", "t", "another name",
        ),
        (
            one("InsertField", topic_field="__key"),
            "transform.reserved_column", "t.topic.field", "another",
        ),
        (one("InsertField", topic_field="!"), "transform.bad_name", "t.topic.field", "character"),
        (one("InsertField", topic_field="${env:A}"), "transform.bad_name", "t.topic.field", "${"),
        (one("InsertField", offset_field="o"), "transform.no_metadata", "t.offset.field", "source"),
        (
            one("InsertField", timestamp_field="o!"),
            "transform.no_metadata", "t.timestamp.field", "source",
        ),
        (one("InsertField$Key", topic_field="a"), "transform.key_not_struct", "t", "$Value"),
        (one("ReplaceField", whitelist="a"), "config.unknown_key", "t.whitelist", "`include`"),
        (one("ReplaceField", blacklist="a"), "config.unknown_key", "t.blacklist", "`exclude`"),
        (one("ReplaceField", renames="a"), "config.wrong_type", "t.renames", "old:new"),
        (one("ReplaceField", renames="a:b:c"), "config.wrong_type", "t.renames", "old:new"),
        (one("ReplaceField", renames="id:name"), "transform.duplicate_column", "t", "another"),
        (one("ReplaceField", renames="id:__op"), "transform.reserved_column", "t.renames", ""),
        (one("ReplaceField", exclude="__op"), "transform.reserved_column", "t.exclude", "always"),
        (one("Project", columns="id, nam"), "transform.unknown_column", "t.columns", "`name`"),
        (one("Project", columns="id, id"), "transform.duplicate_column", "t.columns", "another"),
        (one("Project", columns="id + 1"), "transform.bad_expression", "t.columns", "AS"),
        (one("Project", columns="id,,name"), "transform.bad_expression", "t.columns", "AS"),
        (one("Project", columns="id AS __key"), "transform.reserved_column", "t.columns", ""),
        (one("Project", columns="sum(id) AS s"), "transform.forbidden_function", "t.columns", ""),
        (
            one("RegexRouter", regex="d", replacement="x", predicate="p") | TOMBSTONE,
            "transform.row_predicate", "t", "TopicNameMatches",
        ),
        (
            one("Project", columns="name AS id", predicate="p") | TOMBSTONE,
            "transform.type_conflict", "t", "predicate",
        ),
        (
            one("RegexRouter", regex="d", replacement="$1"),
            "transform.bad_replacement", "t.replacement", "$1",
        ),
        (one("RegexRouter", regex="(", replacement="a"), "transform.bad_regex", "t.regex", ""),
    ],
)  # fmt: skip
def test_each_error_names_its_key_and_a_fix(config, code, path, says):
    found = refused(config)
    assert (found.code, found.config_path) == (code, f"transforms.{path}")
    assert says in found.fix
    assert found.fix


def test_a_misspelt_predicate_names_the_nearest():
    config = one("Filter", predicate="tombstone") | {
        "predicates": "tombstones",
        "predicates.tombstones.type": "RecordIsTombstone",
    }
    assert refused(config).suggestion == "tombstones"


def test_an_unknown_type_of_predicate_lists_the_valid_types():
    found = refused({"predicates": "p", "predicates.p.type": "TopicMatches"})
    assert (found.code, found.config_path) == ("transform.unknown_predicate", "predicates.p.type")
    assert "TopicNameMatches" in found.fix


def test_members_without_a_list_are_refused():
    assert refused({"transforms.t.type": "Filter"}).config_path == "transforms"


def test_a_name_listed_twice_is_refused():
    assert refused(one("Filter", condition="id=1") | {"transforms": "t,t"}).code == (
        "transform.duplicate_member"
    )


def test_all_errors_are_reported_at_once():
    config = one("Filter", conditon="x") | {
        "transforms": "t,u",
        "transforms.u.type": "RegexRouter",
        "predicates": "p",
    }
    detail = refused(config).detail
    for path in (
        "transforms.t.conditon", "transforms.u.regex", "transforms.u.replacement",
        "predicates.p.type",
    ):  # fmt: skip
        assert path in detail
    assert detail.count("\n") == 3


def test_two_columns_of_one_name_are_refused_before_any_expression_reads_them():
    schema = pa.schema([("a", pa.int64()), ("a", pa.string())])
    assert refused(one("Filter", condition="a = 1"), schema).code == "transform.duplicate_column"


def test_a_row_without_columns_is_refused():
    assert refused(one("ReplaceField", exclude="a"), pa.schema({"a": pa.int64()})).code == (
        "transform.no_columns"
    )


PLACED = pa.schema(
    {"id": pa.int64(), "__op": pa.int8(), "__partition": pa.int32(), "__offset": pa.int64()}
)


def test_only_a_chain_that_inserts_positions_needs_them():
    assert not build_chain(one("InsertField", topic_field="t")).needs_positions
    assert build_chain(one("InsertField", partition_field="p")).needs_positions
    assert build_chain(one("InsertField$Key", offset_field="o")).needs_positions


def test_positions_of_rows_are_inserted_and_dropped_behind_the_chain():
    config = one("InsertField", partition_field="p", offset_field="o!")
    steps = compiled(config, schema=PLACED).steps
    assert dict(steps[0].select)["p"] == "`__partition`"
    assert [name for name, _ in steps[-1].select] == ["id", "p", "o", "__op"]


def test_a_sink_may_want_the_partition_or_the_whole_position():
    partition = replace(build_chain({}), keeps_partition=True)
    names = pa.schema([("a", pa.int64()), ("__partition", pa.int32()), ("__offset", pa.int64())])
    (step,) = partition.compile("d", names).steps
    assert [name for name, _ in step.select] == ["a", "__partition"]
    assert partition.compile("d", names.remove(2)).steps == ()
    assert replace(partition, keeps_positions=True).compile("d", names).steps == ()


def test_a_condition_may_read_positions():
    steps = compiled(one("Filter", condition="__offset % 2 = 0"), schema=PLACED).steps
    assert [name for name, _ in steps[-1].select] == ["id", "__op"]


def test_a_predicate_over_rows_limits_every_kind_of_change():
    """Rows that it does not match keep their values, and cannot fail."""
    config = one("Cast", spec="name:string", predicate="p") | TOMBSTONE
    assert compiled(config).steps == ()
    (step,) = compiled(one("MaskField", fields="name", predicate="p") | TOMBSTONE).steps
    assert dict(step.select)["name"].startswith("CASE WHEN (")
    (step,) = compiled(
        one("PatternFilter", fields="name", pattern="a", predicate="p") | TOMBSTONE
    ).steps
    assert step.where.startswith("NOT (")
    for type_, keys in (
        ("SetSchemaMetadata", {"schema_name": "n"}),
        ("TimestampRouter", {"topic_format": "x-${topic}"}),
    ):
        assert refused(one(type_, predicate="p", **keys) | TOMBSTONE).code == (
            "transform.row_predicate"
        )


def test_every_name_of_kafka_and_rocketmq_is_an_alias():
    names = [
        "Cast", "DropHeaders", "ExtractField", "Filter", "Flatten", "HeaderFrom", "HoistField",
        "InsertField", "InsertHeader", "MaskField", "RegexRouter", "ReplaceField",
        "SetSchemaMetadata", "TimestampConverter", "TimestampRouter", "ValueToKey",
    ]  # fmt: skip
    for name in names:
        halves = [""] if f"{KAFKA}.{name}" in TRANSFORMS_BY_NAME else ["$Key", "$Value"]
        for half in halves:
            assert (
                TRANSFORMS_BY_NAME[f"{KAFKA}.{name}{half}"] is TRANSFORMS_BY_NAME[f"{name}{half}"]
            )
    rocketmq = "org.apache.rocketmq.connect.transforms"
    for name in ("ChangeCase", "ExtractNestedField", "PatternFilter", "PatternRename", "SetNull"):
        assert f"{rocketmq}.{name}$Key" in TRANSFORMS_BY_NAME
    assert TRANSFORMS_BY_NAME[f"{rocketmq}.RegexRouter"] is TRANSFORMS_BY_NAME["RegexRouter"]
    assert f"{rocketmq}.SetMaximumPrecision$Value" in TRANSFORMS_BY_NAME


def test_a_transform_of_rocketmq_connect_has_its_type_in_class():
    config = {
        "transforms": "c",
        "transforms.c.class": "org.apache.rocketmq.connect.transforms.PatternRename$Value",
        "transforms.c.field.pattern": "name",
        "transforms.c.field.replacement": "text",
    }
    (step,) = compiled(config).steps
    assert [name for name, _ in step.select] == ["id", "text", "__op"]


def test_timestamp_router_without_timestamp_renames_every_dataset():
    assert compiled(one("TimestampRouter", topic_format="x-${topic}")).dataset == "x-d"


def test_headers_that_only_spark_refuses_are_tried_row_by_row_there():
    """A name that a row has twice fails in Spark, where the kernel keeps both."""
    schema = pa.schema({"__headers": pa.map_(pa.string(), pa.binary()), "v": pa.int64()})
    config = {
        "transforms": "h",
        "transforms.h.type": "InsertHeader",
        "transforms.h.header": "b",
        "transforms.h.value.literal": "1",
    }
    (step,) = build_chain(config).compile("d", schema).steps
    assert step.kernel is not None
    assert step.risky == {"__headers"}
