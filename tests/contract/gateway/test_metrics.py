"""`/metrics`, as Prometheus asks for it."""

from prometheus_client.parser import text_string_to_metric_families

from penstock_kit.testing import wait_until


def test_prometheus_is_told_of_connectors_and_workers(gateway, made):
    made("measured")

    def families():
        answer = gateway.get("/metrics", headers={"Accept": "text/plain;version=0.0.4"})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain")
        return {family.name: family for family in text_string_to_metric_families(answer.text)}

    def states():
        samples = families()["penstock_connector_state"].samples
        return {one.labels["connector"]: one.labels["state"] for one in samples}

    # the scheduler hears of a connector a moment after it was stored
    wait_until(lambda: states().get("measured") == "stopped", 120, "the connector is measured")
    assert [one.value for one in families()["penstock_worker_connected"].samples] == [1]


def test_prometheus_is_told_what_processes_count(gateway, made):
    made("counted")

    def value(name, service):
        text = gateway.get("/metrics").text
        samples = [one for f in text_string_to_metric_families(text) for one in f.samples]
        (found,) = [
            one.value for one in samples if (one.name, one.labels.get("service")) == (name, service)
        ]
        return found

    assert value("penstock_store_writes_total", "config") > 0
    assert value("penstock_store_transactions_total", "config") > 0
    wait_until(lambda: value("penstock_leader_turns_total", "scheduler") > 0, 120, "a turn")
    assert value("penstock_leader_sessions", "scheduler") == 1
    for number in ("plans_total", "jobs_running", "jobs_waiting", "job_seconds_total"):
        assert value(f"penstock_engine_{number}", "worker") >= 0
    for service in ("config", "offset", "scheduler", "worker"):
        assert value("penstock_processes", service) == 1
        assert value("penstock_processes_silent", service) == 0


def test_it_is_only_read(gateway):
    assert gateway.post("/metrics", {}).status_code == 405
