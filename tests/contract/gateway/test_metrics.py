"""`/metrics`, as Prometheus asks for it."""

from prometheus_client.parser import text_string_to_metric_families


def test_prometheus_is_told_of_connectors_and_workers(gateway, made):
    made("measured")
    answer = gateway.get("/metrics", headers={"Accept": "text/plain;version=0.0.4"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    states = families["penstock_connector_state"].samples
    assert {s.labels["connector"]: s.labels["state"] for s in states}["measured"] == "stopped"
    assert [s.value for s in families["penstock_worker_connected"].samples] == [1]


def test_it_is_only_read(gateway):
    assert gateway.post("/metrics", {}).status_code == 405
