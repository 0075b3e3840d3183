"""Values of the Helm chart: what is misspelt, or cannot be, is refused before an installation."""

import copy
import json
import shutil

import jsonschema
import pytest
import yaml

from penstock.cluster.keys import COMMON, KEYS, PREFIX
from penstock.model.errors import ConfigError
from penstock.topic_files.locations import open_folder
from support.chart import (
    BUILT,
    CASES,
    CHART,
    environment,
    linted,
    of_kind,
    render,
    values_of,
)

pytestmark = pytest.mark.timeout(BUILT)

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.mark.parametrize("case", CASES)
def test_helm_has_nothing_to_say_about_the_chart(case):
    assert linted(case) == ""


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("Chart.yaml", "version: one", "version"),
        ("templates/topics.yaml", "{{ .Values.nothing.there }}", "nil pointer"),
        ("templates/topics.yaml", "a: [", "topics.yaml"),
        ("values.yaml", "unknown: 1", "unknown"),
    ],
)
def test_a_chart_with_a_mistake_goes_red(file, text, told, tmp_path):
    chart = shutil.copytree(CHART, tmp_path / "penstock")
    lines = (chart / file).read_text().splitlines()
    kept = [line for line in lines if line.split(":")[0] != text.split(":")[0]]
    (chart / file).write_text("\n".join([*kept, text, ""]))
    assert told in linted("default", chart)


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
    own = place.get(last)
    merged = isinstance(own, dict) and isinstance(value, dict) and parents == []
    place[last] = {**own, **value} if merged else value
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
        ("networkPolicy/egress", [4317]),
        ("env", {"TZ": "UTC"}),
        ("env", [{"name": "A-B", "value": "1"}]),
        ("env", [{"name": "WORKERS", "value": 3}]),  # variables are texts
        ("env", [{"name": "A", "value": "1", "valueFrom": {}}]),
        ("env", [{"name": "PENSTOCK_LISTEN", "value": "0.0.0.0:1"}]),  # it has values of its own
        ("worker/env", [{"name": "PENSTOCK_STATE_DIR", "value": "/elsewhere"}]),
        ("worker/envFrom", [{"secret": "connectors"}]),
        ("config/volumes", {"name": "a"}),
        ("ingress", {"enabled": True, "hosts": []}),
        ("ingress/hosts", ["https://penstock.example"]),
        ("ingress/host", "penstock.example"),
        ("serviceMonitor/interval", 30),
        ("serviceMonitor/scrapeTimeout", "10"),
        ("serviceMonitor", {"basicAuthSecret": {"name": "a"}, "tokenSecret": {"name": "b"}}),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_installed(path, value, tmp_path):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(path, value), SCHEMA)
    done = rendered_with(changed(path, value), tmp_path)
    assert done.returncode != 0
    assert "schema" in done.stderr


def rendered_with(values, folder):
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return render("--values", file)


TWICE = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
REACHED = {"enabled": True, "hosts": ["penstock.example"]}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"env": TWICE}, "env has A twice"),
        ({"worker": {"env": TWICE}}, "env has A twice"),
        ({"ingress": REACHED}, "ingress.enabled wants a gateway that knows who asks"),
        ({"serviceMonitor": {"enabled": True}}, "serviceMonitor.enabled wants a gateway"),
        (
            {"ingress": REACHED, "gateway": {"usersSecret": {"name": "people"}}},
            "ingress.enabled wants networkPolicy.clients",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused_with_what_to_do(values, told, tmp_path):
    done = rendered_with(values, tmp_path)
    assert done.returncode != 0
    assert told in done.stderr


def test_the_schema_refuses_exactly_the_variables_that_the_chart_sets_by_other_values():
    by_chart = {name for case in CASES for service in KEYS for name in _set(case, service)}
    variables = {PREFIX + name.upper().replace(".", "_") for name in by_chart}
    refused = SCHEMA["definitions"]["env"]["items"]["properties"]["name"]["not"]["enum"]
    assert refused == sorted(variables | {"PENSTOCK_LOG_LEVEL"})


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
        open_folder(place)
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
