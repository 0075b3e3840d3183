"""The built-in transforms, predicates and converters of a worker, under all their names."""

from penstock.worker.admin.built_ins import find_built_in, list_built_ins

KAFKA = "org.apache.kafka.connect"


def names(kind):
    return {one.name for one in list_built_ins() if one.type == kind}


def test_each_built_in_has_a_short_name_and_the_names_of_kafka_connects_classes():
    transforms = names("transformation")
    assert {"Cast", "Cast$Key", f"{KAFKA}.transforms.Cast$Key", "Sql"} <= transforms
    assert {"TopicNameMatches", f"{KAFKA}.transforms.predicates.HasHeaderKey"} <= names("predicate")
    assert {"json", f"{KAFKA}.json.JsonConverter"} <= names("converter") & names("header_converter")
    only_headers = names("header_converter") - names("converter")
    assert only_headers == {"simple", f"{KAFKA}.storage.SimpleHeaderConverter"}
    listed = [(one.type, one.name) for one in list_built_ins()]
    assert len(listed) == len(set(listed))


def test_each_listed_name_has_a_definition():
    for one in list_built_ins():
        found = find_built_in(one.name)
        assert found is not None, one
        assert (found.name, found.version) == (one.name, one.version)
    assert find_built_in("file-sink") is None


def test_a_definition_has_the_keys_that_are_read():
    cast = find_built_in(f"{KAFKA}.transforms.Cast$Value")
    assert {key.name for key in cast.keys} >= {"spec"}
    (spec,) = (key for key in cast.keys if key.name == "spec")
    assert (spec.required, spec.importance) == (True, "high")
    json = find_built_in("JsonConverter")
    assert {key.name for key in json.keys} >= {"schemas.enable", "decimal.format"}
