"""A plugin's transform in a chain: its keys, its step, the transforms behind it."""

import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError
from penstock.model.step import RemoteStep
from penstock.transform.configuration import Extensions, build_chain

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})
BEHIND = pa.schema({"id": pa.int64(), "loud": pa.string()})


def chain(**keys):
    config = {"transforms": "t,k", "transforms.t.type": "shout", "transforms.t.end": "!"}
    config |= {"transforms.k.type": "ReplaceField", "transforms.k.exclude": "loud"}
    config |= {name.replace("__", "."): value for name, value in keys.items()}
    return build_chain(config, Extensions(plugins=lambda name: name == "shout"))


def test_a_plugin_gets_its_keys_and_the_rest_is_resolved_for_its_output_columns():
    built = chain()
    (remote,) = built.plugin_transforms
    assert (remote.connector, remote.config) == ("shout", (("end", "!"),))
    assert remote.path == "transforms.t"
    (step,) = built.compile("d", SCHEMA).steps
    assert isinstance(step, RemoteStep)
    (behind,) = step.rest(BEHIND)
    assert [name for name, _ in behind.select] == ["id"]


def test_with_connections_sets_the_address_of_a_plugins_transform():
    from dataclasses import replace

    connected = chain().with_connections(lambda remote: replace(remote, address="unix:/s"))
    (step,) = connected.compile("d", SCHEMA).steps
    assert step.remote.address == "unix:/s"


def test_a_predicate_over_names_is_decided_per_dataset():
    keys = {
        "predicates": "p", "predicates__p__type": "TopicNameMatches",
        "predicates__p__pattern": "live", "transforms__t__predicate": "p",
    }  # fmt: skip
    built = chain(**keys)
    assert isinstance(built.compile("live", SCHEMA).steps[0], RemoteStep)
    assert built.compile("other", BEHIND).steps[0].select is not None


def test_a_predicate_over_rows_is_refused():
    keys = {
        "predicates": "p", "predicates__p__type": "RecordIsTombstone",
        "transforms__t__predicate": "p",
    }  # fmt: skip
    schema = SCHEMA.append(pa.field("__op", pa.int8()))
    with pytest.raises(ConfigError) as caught:
        chain(**keys).compile("d", schema)
    assert caught.value.code == "transform.row_predicate"


def test_a_built_in_transform_is_preferred_over_a_plugins():
    built = build_chain(
        {"transforms": "t", "transforms.t.type": "Filter", "transforms.t.condition": "id > 1"},
        Extensions(plugins=lambda _name: True),
    )
    assert built.plugin_transforms == ()


def test_an_unknown_type_is_refused():
    with pytest.raises(ConfigError) as caught:
        build_chain(
            {"transforms": "t", "transforms.t.type": "shuot"}, Extensions(plugins="shout".__eq__)
        )
    assert caught.value.code == "transform.unknown_transform"
