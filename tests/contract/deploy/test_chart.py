"""The Helm chart: what Kubernetes gets keeps the promises."""

from itertools import product
from pathlib import Path

import pytest

from penstock.cluster.keys import KEYS, PREFIX
from penstock.cluster.settings import instance_settings
from support.chart import (
    BUILT,
    CASES,
    container,
    environment,
    of_kind,
    own_keys,
    pod,
    workload,
)

pytestmark = pytest.mark.timeout(BUILT)

CONTROL = ("config", "offset", "scheduler", "gateway")
PLACES = list(product(CASES, KEYS))
SECRETS = {
    ("full", "config"): {"PENSTOCK_STORE_URL"},
    ("full", "offset"): {"PENSTOCK_STORE_URL"},
    ("full", "worker"): {"DB_PASSWORD"},
    ("s3", "worker"): {"PENSTOCK_TOPICS_S3_ACCESS_KEY", "PENSTOCK_TOPICS_S3_SECRET_KEY"},
}
"""Beside etcd's user."""

GIVEN = {"DB_PASSWORD", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_METRIC_EXPORT_INTERVAL"}
"""Variables that are no keys of a service, in the case that gives some."""


@pytest.mark.parametrize(("case", "service"), PLACES)
def test_a_service_takes_what_its_pod_says(case, service, tmp_path):
    config = own_keys(case, service, tmp_path)
    settings = instance_settings(service, config, environment(case, service))
    assert settings.listen == "0.0.0.0:7400"
    assert settings.advertise
    assert container(case, service)["args"][:2] == ["penstock", service]
    names = {PREFIX + key.name.upper().replace(".", "_") for key in KEYS[service]}
    given = GIVEN if case == "full" else set()
    assert environment(case, service).keys() <= names | {"PENSTOCK_LOG_LEVEL"} | given


@pytest.mark.parametrize("service", KEYS)
def test_all_services_have_the_variables_that_are_given_to_all(service):
    given = environment("full", service)
    assert given["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4317"
    assert {"configMapRef": {"name": "proxies"}} in container("full", service)["envFrom"]


def test_a_service_has_variables_of_its_own_which_win():
    names = [one["name"] for one in container("full", "worker")["env"]]
    assert sorted(set(names)) == sorted(names)
    given = {one["name"]: one for one in container("full", "worker")["env"]}
    assert given["OTEL_METRIC_EXPORT_INTERVAL"]["value"] == "5000"
    assert environment("full", "config")["OTEL_METRIC_EXPORT_INTERVAL"] == "60000"
    password = {"secretKeyRef": {"name": "db", "key": "password"}}
    assert given["DB_PASSWORD"]["valueFrom"] == password
    assert [one for one in CONTROL if "DB_PASSWORD" in environment("full", one)] == []
    secret = {"secretRef": {"name": "connectors"}, "prefix": "DB_"}
    assert container("full", "worker")["envFrom"][-1] == secret


@pytest.mark.parametrize("service", KEYS)
def test_without_variables_a_container_has_no_list_of_them(service):
    assert "envFrom" not in container("default", service)
    assert not GIVEN & environment("default", service).keys()


@pytest.mark.parametrize(("service", "place"), [("config", "/etc/ssl/own"), ("worker", "/files")])
def test_a_service_mounts_the_volumes_that_are_given_to_it(service, place):
    (mount,) = [m for m in container("full", service)["volumeMounts"] if m["mountPath"] == place]
    assert mount["name"] in {volume["name"] for volume in pod("full", service)["volumes"]}
    others = {m["mountPath"] for m in container("full", "scheduler")["volumeMounts"]}
    assert place not in others


def test_values_reach_the_services(tmp_path):
    config = own_keys("full", "worker", tmp_path)
    settings = instance_settings("worker", config, environment("full", "worker"))
    assert settings.etcd.endpoints == ("etcd-0.etcd:2379", "etcd-1.etcd:2379", "[fd00::1]:2381")
    assert settings.etcd.cluster == "shop"
    assert settings.labels() == {"zone": "a", "disk": "ssd"}
    assert (settings.ttl, settings.drain) == (6, 30)
    assert settings.values["topics.retention.bytes"] == 1 << 30
    assert settings.extra["spark.conf.spark.sql.shuffle.partitions"] == "4"
    (provider,) = settings.worker().providers
    assert (provider.name, provider.params["allowlist.pattern"].text) == ("env", "DB_.*")


@pytest.mark.parametrize(("case", "service"), PLACES)
def test_a_pod_is_killed_only_after_its_drain(case, service, tmp_path):
    config = own_keys(case, service, tmp_path)
    drain = instance_settings(service, config, environment(case, service)).drain
    grace = pod(case, service)["terminationGracePeriodSeconds"]
    hook = container(case, service).get("lifecycle", {}).get("preStop")
    before = int(hook["exec"]["command"][-1]) if hook else 0
    assert grace >= before + 2 * drain + 15
    assert (hook is None) == (service == "worker"), "a worker's drain begins at once"


@pytest.mark.parametrize(("case", "service"), PLACES)
def test_the_kubelet_asks_the_port_that_is_served(case, service):
    one = container(case, service)
    ports = {port["containerPort"] for port in one["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        # where callers must show a certificate, the kubelet, which has none, only knocks
        how = "tcpSocket" if case == "full" else "grpc"
        assert one[probe][how]["port"] in ports
    assert one["startupProbe"]["failureThreshold"] * one["startupProbe"]["periodSeconds"] >= 60


@pytest.mark.parametrize(("case", "service"), PLACES)
def test_a_pod_may_do_nothing_that_it_need_not(case, service):
    spec, one = pod(case, service), container(case, service)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert one["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in one["resources"]["limits"]
    accounts = {account["metadata"]["name"] for account in of_kind(case, "ServiceAccount")}
    assert spec["serviceAccountName"] in accounts


@pytest.mark.parametrize(("case", "service"), PLACES)
def test_every_volume_that_is_mounted_is_there(case, service):
    volumes = {volume["name"] for volume in pod(case, service)["volumes"]}
    assert {mount["name"] for mount in container(case, service)["volumeMounts"]} == volumes


@pytest.mark.parametrize(("case", "service"), PLACES)
def test_pods_are_spread_and_taken_away_one_at_a_time(case, service):
    labels = workload(case, service)["spec"]["template"]["metadata"]["labels"]
    selectors = [
        spread["labelSelector"]["matchLabels"]
        for spread in pod(case, service)["topologySpreadConstraints"]
    ]
    selectors.append(workload(case, service)["spec"]["selector"]["matchLabels"])
    budgets = [
        budget["spec"]["selector"]["matchLabels"]
        for budget in of_kind(case, "PodDisruptionBudget")
        if budget["spec"]["maxUnavailable"] == 1
    ]
    (budget,) = [one for one in budgets if one.items() <= labels.items()]
    assert all(one.items() <= labels.items() for one in [*selectors, budget])


@pytest.mark.parametrize("case", CASES)
def test_no_control_service_is_alone_and_workers_keep_their_names(case):
    for service in CONTROL:
        assert workload(case, service)["kind"] == "Deployment"
        assert workload(case, service)["spec"]["replicas"] >= 2
    worker = workload(case, "worker")
    assert worker["kind"] == "StatefulSet"
    headless = [one for one in of_kind(case, "Service") if one["spec"].get("clusterIP") == "None"]
    assert [one["metadata"]["name"] for one in headless] == [worker["spec"]["serviceName"]]
    env = {one["name"]: one for one in container(case, "worker")["env"]}
    name = env["PENSTOCK_INSTANCE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"]
    address = env["PENSTOCK_ADVERTISE"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert (name, address) == ("metadata.name", "status.podIP")


@pytest.mark.parametrize(("case", "service"), PLACES)
def test_secrets_come_from_secrets_and_reach_only_who_needs_them(case, service, tmp_path):
    env = {one["name"]: one for one in container(case, service)["env"]}
    etcd = {"PENSTOCK_ETCD_USER", "PENSTOCK_ETCD_PASSWORD"} if case == "full" else set()
    found = {name for name, one in env.items() if "secretKeyRef" in one.get("valueFrom", {})}
    assert found == etcd | SECRETS.get((case, service), set())
    passwords = {key.name for key in KEYS[service] if key.type == "password"}
    assert not passwords & own_keys(case, service, tmp_path).keys()


@pytest.mark.parametrize(("case", "service"), PLACES)
def test_the_network_is_open_for_what_is_needed_and_closed_otherwise(case, service):
    (policy,) = [
        one["spec"]
        for one in of_kind(case, "NetworkPolicy")
        if one["metadata"]["name"].endswith(f"-{service}")
    ]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    rest = [8083] if (case, service) == ("full", "gateway") else []
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == [7400, *rest]
    out = {port["port"] for rule in policy["egress"] for port in rule.get("ports", ())}
    if service == "worker":
        assert {} in policy["egress"]
    else:
        state = {2379, 2381, 5432} if case == "full" else {2379}
        issuer = {8443} if rest else set()
        given = {4317} if case == "full" else set()
        assert out == {53, 7400} | state | issuer | given


def test_who_knows_nobody_listens_inside_its_pod_alone(tmp_path):
    keys = own_keys("default", "gateway", tmp_path)
    assert keys["listeners"] == "http://127.0.0.1:8083"
    ports = {port["port"] for one in of_kind("default", "Service") for port in one["spec"]["ports"]}
    assert ports == {7400}


def test_a_gateway_that_knows_people_is_reached_over_tls(tmp_path):
    keys = own_keys("full", "gateway", tmp_path)
    assert keys["listeners"] == "https://0.0.0.0:8083"
    mounts = {m["mountPath"] for m in container("full", "gateway")["volumeMounts"]}
    files = ("auth.users", "listener.tls.certificate", "listener.tls.key")
    assert {str(Path(keys[name]).parent) for name in files} <= mounts
    (service,) = [
        one for one in of_kind("full", "Service") if one["metadata"]["name"].endswith("-gateway")
    ]
    rest = {p["name"]: (p["port"], p.get("appProtocol")) for p in service["spec"]["ports"]}
    assert rest["rest"] == (8083, "https")


def gateway_ports():
    services = of_kind("full", "Service")
    (service,) = [one for one in services if one["metadata"]["name"].endswith("-gateway")]
    return service, {port["name"]: port["port"] for port in service["spec"]["ports"]}


def test_an_ingress_leads_to_the_rest_api():
    (ingress,) = of_kind("full", "Ingress")
    service, ports = gateway_ports()
    assert ingress["spec"]["ingressClassName"] == "nginx"
    (rule,) = ingress["spec"]["rules"]
    assert rule["host"] == "penstock.example"
    (path,) = rule["http"]["paths"]
    backend = path["backend"]["service"]
    assert backend["name"] == service["metadata"]["name"]
    assert ports[backend["port"]["name"]] == 8083
    assert ingress["spec"]["tls"] == [
        {"secretName": "penstock-example", "hosts": ["penstock.example"]}
    ]
    assert ingress["metadata"]["annotations"] == {
        "nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"
    }


def test_a_service_monitor_scrapes_the_gateways_as_a_viewer():
    (monitor,) = of_kind("full", "ServiceMonitor")
    service, ports = gateway_ports()
    chosen = monitor["spec"]["selector"]["matchLabels"]
    assert chosen.items() <= service["metadata"]["labels"].items()
    others = [one for one in of_kind("full", "Service") if one != service]
    assert not any(chosen.items() <= one["metadata"]["labels"].items() for one in others)
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert ports[endpoint["port"]] == 8083
    assert (endpoint["scheme"], endpoint["path"]) == ("https", "/metrics")
    assert endpoint["interval"] == "15s"
    assert endpoint["basicAuth"] == {
        "username": {"name": "prometheus", "key": "username"},
        "password": {"name": "prometheus", "key": "password"},
    }
    assert endpoint["tlsConfig"]["serverName"] == "penstock.example"


@pytest.mark.parametrize("kind", ["Ingress", "ServiceMonitor"])
def test_what_is_not_asked_for_is_not_there(kind):
    assert [case for case in CASES if of_kind(case, kind)] == ["full"]


@pytest.mark.parametrize("service", KEYS)
def test_each_service_has_a_certificate_of_its_own(service):
    (volume,) = [v for v in pod("full", service)["volumes"] if v["name"] == "tls"]
    assert volume["secret"]["secretName"] == f"shop-tls-{service}"


def test_topics_outlive_a_release_and_all_workers_see_them():
    (claim,) = of_kind("default", "PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    (volume,) = [v for v in pod("full", "worker")["volumes"] if v["name"] == "topics"]
    assert volume["persistentVolumeClaim"]["claimName"] == "shared"
    assert of_kind("full", "PersistentVolumeClaim") == []


def machine(case, folder):
    config = own_keys(case, "worker", folder)
    return instance_settings("worker", config, environment(case, "worker")).worker()


def test_topics_in_a_bucket_are_reached_with_the_keys_of_a_secret(tmp_path):
    settings = machine("s3", tmp_path)
    s3 = settings.topics_s3
    assert (settings.topics_dir, s3.endpoint) == ("s3://rows/shop", "https://s3.example:9000")
    assert s3.options["aws_region"] == "eu-central-1"
    env = {one["name"]: one.get("valueFrom") for one in container("s3", "worker")["env"]}
    for name, key in (("ACCESS_KEY", "access-key"), ("SECRET_KEY", "secret-key")):
        found = env[f"PENSTOCK_TOPICS_S3_{name}"]["secretKeyRef"]
        assert found == {"name": "bucket", "key": key}
    assert (s3.access_key.reveal(), s3.secret_key.reveal()) == ("x", "x")


def test_topics_in_a_bucket_are_reached_with_the_role_of_the_pod(tmp_path):
    settings = machine("role", tmp_path)
    assert settings.topics_dir == "s3://rows"
    # the variables that come with the role are used only when nothing is set
    assert settings.topics_s3.to_ticket() == {}
    account = pod("role", "worker")["serviceAccountName"]
    annotated = {
        one["metadata"]["name"]: one["metadata"]["annotations"]
        for one in of_kind("role", "ServiceAccount")
        if "annotations" in one["metadata"]
    }
    assert annotated == {
        account: {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/rows"}
    }


@pytest.mark.parametrize("case", ["s3", "role"])
def test_topics_in_a_bucket_want_no_volume(case):
    assert of_kind(case, "PersistentVolumeClaim") == []
    spec = pod(case, "worker")
    assert not any("persistentVolumeClaim" in volume for volume in spec["volumes"])
    assert "topics" not in {volume["name"] for volume in spec["volumes"]}
