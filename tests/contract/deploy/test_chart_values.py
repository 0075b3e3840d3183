"""The values of the Helm chart: what is misspelt, or cannot be, is refused before it is installed.

Where there is helm, it renders and refuses besides; no test is left out where there is none.
"""

import copy
import json
import shutil

import jsonschema
import pytest
import yaml

from penstock.cluster.keys import COMMON, KEYS
from penstock.cluster.variables import PREFIX
from penstock.model.errors import ConfigError
from penstock.topic_files import folder_of
from support.chart import (
    CASES,
    CHART,
    environment,
    first_line,
    helm,
    kept,
    of_kind,
    rendered,
    run_helm,
    values_of,
)

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.mark.parametrize("case", CASES)
def test_what_is_kept_is_what_helm_makes_of_the_chart(case):
    """By a digest of the chart, of the values and of what helm made, which is only written when
    `helm lint --strict` is content. Where there is helm, it lints and renders once more.
    """
    first, _, body = kept(case).partition("\n")
    assert first == first_line(case, body), "PYTHONPATH=tests HELM_BIN=… python -m support.chart"
    if helm() is not None:
        assert rendered(case) == kept(case)


@pytest.mark.parametrize("case", CASES)
def test_what_was_edited_by_hand_goes_red(case, tmp_path):
    first, _, body = kept(case).partition("\n")
    assert first != first_line(case, body.replace("maxUnavailable: 1", "maxUnavailable: 2"))
    for name in ("templates/topics.yaml", "values.yaml", "values.schema.json"):
        chart = shutil.copytree(CHART, tmp_path / name)
        (chart / name).write_text((chart / name).read_text() + "\n")
        assert first != first_line(case, body, chart), name


def test_the_values_that_ship_are_valid():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


def test_the_schema_refuses_what_it_does_not_name_wherever_it_names_something():
    assert open_objects(SCHEMA) == []
    schema = copy.deepcopy(SCHEMA)
    del schema["properties"]["topics"]["properties"]["s3"]["additionalProperties"]
    assert open_objects(schema) == ["topics/s3"]


def open_objects(schema, path=""):
    """Objects that name members, and take others too."""
    found = []
    for name, one in schema.get("properties", {}).items():
        here = f"{path}/{name}".lstrip("/")
        if "properties" in one:
            found += [] if one.get("additionalProperties") is False else [here]
            found += open_objects(one, here)
    return found


def changed(path, value):
    values = copy.deepcopy(VALUES)
    *parents, last = path.split("/")
    place = values
    for name in parents:
        place = place[name]
    place[last] = {**place[last], **value} if path == "topics" else value
    return values


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replica", 3),
        ("worker/replica", 3),
        ("worker/replicas", 0),
        ("worker/labels", {"zone": "a,b"}),
        ("worker/accountAnnotations", {"role": 1}),
        ("clusterName", "Shop"),
        ("drainTimeoutSeconds", "20s"),
        ("etcd/endpoints", []),
        ("etcd/endpoints", ["http://etcd:2379"]),
        ("store/kind", "sqlite"),
        ("store/kind", "postgresql"),  # and no secret that says where it is
        ("topics/dir", "relative"),
        ("topics/dir", "s3:/rows"),
        ("topics/dir", "gs://rows/shop"),
        ("topics", {"dir": "s3://rows", "claim": {"existing": "shared"}}),  # one or the other
        ("topics/s3/region", "eu-central-1"),  # of a bucket that nobody named
        ("topics/s3/endpoint", "https://s3.example"),
        ("topics/s3/credentialsSecret/name", "bucket"),
        ("topics", {"dir": "s3://rows", "s3": {"endpoint": "s3.example:9000"}}),
        ("topics", {"dir": "s3://rows", "s3": {"accessKey": "AKIA"}}),  # not in values
        ("keys/all", {"lease.tll": "5s"}),
        ("keys/all", {"lease.ttl": 5}),  # helm turns large numbers into 1e+09
        ("keys/scheduler", {"capacity": "2"}),
        ("keys/worker", {"topics.dir": "/elsewhere"}),
        ("keys/worker", {"topics.s3.secret.key": "in a ConfigMap"}),
        ("gateway/oidc/issuer", "http://login.example"),
        ("keys/gateway", {"listeners": "http://0.0.0.0:8083"}),
        ("tls/secretPrefix", "Shop"),
        ("networkPolicy/enabled", "yes"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_installed(path, value, tmp_path):
    """By the schema, which is all that helm goes by. Where there is helm, by helm too."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(path, value), SCHEMA)
    if helm() is not None:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(changed(path, value)))
        done = run_helm("template", "shop", CHART, "--values", file)
        assert done.returncode != 0
        assert "schema" in done.stderr


@pytest.mark.parametrize(
    "place",
    [
        "s3://rows",
        "s3://rows/",
        "s3://my.rows-1/a/b_c/day=1~",
        "s3://",
        "s3://r",
        "s3:///shop",
        "s3://rows//shop",
        "s3://rows/a b",
        "s3://rows/../shop",
        "s3://rows/shop/..",
        "s3://rows/.shop..",
        "s3://rows/100%",
    ],
)
def test_the_schema_takes_the_buckets_that_workers_take(place):
    try:
        folder_of(place)
    except ConfigError:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(changed("topics/dir", place), SCHEMA)
    else:
        jsonschema.validate(changed("topics/dir", place), SCHEMA)


def test_the_schema_knows_exactly_the_keys_of_each_service_that_the_chart_does_not_set():
    known = SCHEMA["properties"]["keys"]["properties"]
    set_by_chart = {name for case in CASES for service in KEYS for name in _set(case, service)}
    for service, keys in KEYS.items():
        free = {key.name for key in keys} - set_by_chart
        assert known[service]["properties"].keys() == free, service
    free = {key.name for key in COMMON} - set_by_chart
    assert known["all"]["properties"].keys() == free


def _set(case, service):
    """What the chart sets, and what follows from other values: nobody else may set it."""
    (keys,) = of_kind(case, "ConfigMap")
    written = yaml.safe_load(keys["data"][f"{service}.yaml"]).keys()
    files = [yaml.safe_load(file.read_text()) for file in values_of(case)[1:]]
    given = [keys for file in files for keys in file.get("keys", {}).values()]
    variables = {
        key.name
        for key in KEYS[service]
        if PREFIX + key.name.upper().replace(".", "_") in environment(case, service)
    }
    return (written - {name for some in given for name in some}) | variables | {"instance.id"}
