"""`prometheus-source`: what targets answer, what is wrong with an answer, what is said of them."""

import math
import time

import pytest

from penstock_connector import AuthError, ConfigError, DataError, RetriableError
from penstock_connector._config import parse_config, read_config
from penstock_connector.testing import source_task
from penstock_kit.testing import wait_until
from penstock_metrics import PrometheusSource
from support.certificates import Authority
from support.prometheus import PrometheusServer
from support.web import Reply, WebServer

ABOUT = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}
TEXT = {"Content-Type": "text/plain; version=0.0.4"}
OPEN = {"Content-Type": "application/openmetrics-text; version=1.0.0; charset=utf-8"}


def keys(*servers, **more):
    base = {"targets": ",".join(one.url for one in servers), "scrape.interval": "1h"}
    return base | {name.replace("_", "."): str(value) for name, value in more.items()}


def scraped(web, text, headers=TEXT, **more):
    """The samples of one scrape: name, labels without ours, value, time, type; and the others."""
    web.answer = [Reply(text, headers=headers)]
    with source_task(PrometheusSource, keys(web, **more)) as task:
        rows = task.rows(3)
    about = {row["name"]: row["value"] for row in rows if row["name"] in ABOUT}
    return [row for row in rows if row["name"] not in ABOUT], about


def labels_of(row):
    return {name: value for name, value in row["labels"] if name not in {"job", "instance"}}


def test_the_text_format_becomes_rows(web):
    text = (
        "# HELP http_requests_total Requests.\n# TYPE http_requests_total counter\n"
        'http_requests_total{method="post",code="200"} 1027 1395066363000\n'
        "\n# just words\n"
        'msdos_file{path="C:\\\\DIR\\\\F.TXT",error="a \\"b\\"\\n{c}",} 1.5e9\n'
        "  spaced\t{ } +Inf \r\n"
        "# TYPE rpc summary\n"
        'rpc{quantile="0.5"} NaN\nrpc_sum 1.7560473e+07\nrpc_count 2693'
    )
    rows, about = scraped(web, text)
    assert about["up"] == 1
    assert about["scrape_samples_scraped"] == 6
    shown = [(r["name"], labels_of(r), r["type"]) for r in rows]
    assert shown == [
        ("http_requests_total", {"method": "post", "code": "200"}, "counter"),
        ("msdos_file", {"path": "C:\\DIR\\F.TXT", "error": 'a "b"\n{c}'}, "unknown"),
        ("spaced", {}, "unknown"),
        ("rpc", {"quantile": "0.5"}, "summary"),
        ("rpc_sum", {}, "summary"),
        ("rpc_count", {}, "summary"),
    ]
    assert [r["value"] for r in rows if r["name"] != "rpc"] == [
        1027,
        1.5e9,
        math.inf,
        17560473,
        2693,
    ]
    assert rows[0]["timestamp"].timestamp() == 1395066363
    assert abs(rows[1]["timestamp"].timestamp() - time.time()) < 60
    assert dict(rows[0]["labels"])["instance"] == web.url.removeprefix("http://")


def test_openmetrics_becomes_rows(web):
    text = (
        "# TYPE acme_http counter\n# UNIT acme_http seconds\n"
        'acme_http_total{path="/"} 4 1520879607.789 # {trace_id="a"} 0.67 1520879607.1\n'
        "acme_http_created 1520430000.123\n# EOF\n"
    )
    rows, _ = scraped(web, text, OPEN)
    assert [(r["name"], r["value"], r["type"]) for r in rows] == [
        ("acme_http_total", 4, "counter"), ("acme_http_created", 1520430000.123, "counter"),
    ]  # fmt: skip
    assert rows[0]["timestamp"].timestamp() == 1520879607.789
    rows, _ = scraped(web, "a 1 1520879607.789\n# EOF", OPEN, honor_timestamps="false")
    assert rows[0]["timestamp"].timestamp() > 1520879608


@pytest.mark.parametrize(
    ("honored", "wanted"),
    [
        ("false", {"job": "ours", "zone": "z", "exported_job": "theirs", "exported_zone": "y"}),
        ("true", {"job": "theirs", "zone": "y"}),
    ],
)
def test_labels_of_a_target_and_ours(web, honored, wanted):
    text = 'a{job="theirs",zone="y",empty=""} 1\n'
    rows, about = scraped(web, text, honor_labels=honored, job="ours", labels="zone=z")
    found = dict(rows[0]["labels"])
    assert found.pop("instance")
    assert found == wanted
    assert about["up"] == 1


@pytest.mark.parametrize(
    "line",
    ["broken", "1a 2", "a{b=1} 2", 'a{b="1} 2', "a many", "a 1 soon", 'a{b="1",b="2"} 3', "a 1 2 3",
     "a-b 1", 'a 1 # {t="x"} 1', "a 0x1p3", "a{ 1"],
)  # fmt: skip
def test_a_broken_line_is_a_bad_row_and_the_others_are_read(web, line):
    web.answer = [Reply(f"good 1\n{line}\nfine 2\n", headers=TEXT)]
    with source_task(PrometheusSource, keys(web)) as task:
        bad = task.until("bad_row").bad_row
    assert (bad.raw, bad.reason.code) == (line.encode(), "prometheus.bad_line")
    with source_task(PrometheusSource, keys(web)) as task:
        assert {row["name"] for row in task.rows(5)} == {"good", "fine", *ABOUT}


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply("<html>", headers={"Content-Type": "text/html"}), "prometheus.not_metrics"),
        (Reply(b"a 1\n\xff\xfe 2", headers=TEXT), "prometheus.not_metrics"),
        (Reply("a 1\n", headers=OPEN), "prometheus.truncated"),
        (Reply("a 1\n", headers=TEXT, cut=10), "metrics.unreachable"),
        (Reply("a 1\n" * 1000, headers=TEXT), "metrics.too_large"),
        (Reply("a 1\n" * 1000, headers=TEXT).gzipped(), "metrics.too_large"),
        (Reply("a 1\n" * 90, headers=TEXT, broken="drip"), "metrics.timeout"),
        (Reply(broken="hang"), "metrics.timeout"), (Reply(broken="drop"), "metrics.unreachable"),
        (Reply(status=302, headers={"Location": "http://10.0.0.1/"}), "metrics.redirect"),
        (Reply(status=401), "metrics.auth"), (Reply(status=500), "metrics.server_error"),
    ],
)  # fmt: skip
def test_a_target_that_answers_wrong_is_down_with_a_word(web, caplog, reply, code):
    web.answer = [reply]
    config = keys(web, response_max_bytes="1000", request_timeout="300ms")
    with source_task(PrometheusSource, config) as task:
        rows = task.rows(3)
    assert {row["name"] for row in rows} == ABOUT
    assert [row["value"] for row in rows if row["name"] == "up"] == [0]
    assert f"[{code}]" in caplog.text
    checked = parse_config(PrometheusSource.config_type, config)
    with pytest.raises((AuthError, ConfigError, DataError, RetriableError), match=code):
        PrometheusSource.check(checked)


def test_a_target_that_comes_back_is_up_again_and_the_others_never_wait(web, caplog):
    other = WebServer()
    try:
        web.answer = [Reply(status=500), Reply(status=500), Reply("a 1\n", headers=TEXT)]
        other.answer = [Reply("b 1\n", headers=TEXT)]
        config = keys(web, other, scrape_interval="50ms", request_timeout="50ms")
        with source_task(PrometheusSource, config) as task:
            seen = []
            wait_until(
                lambda: seen.extend(task.rows(1)) or {"a", "b"} <= {row["name"] for row in seen},
                20, "both targets",
            )  # fmt: skip
    finally:
        other.close()
    assert "is up again" in caplog.text
    assert caplog.text.count("the target is down") == 1


def test_a_host_that_takes_nothing_is_told_of_missed_scrapes(web, caplog):
    web.answer = [Reply("a 1\n", headers=TEXT)]
    config = keys(web, scrape_interval="20ms", request_timeout="20ms")
    with source_task(PrometheusSource, config, batches=1) as task:
        first = task.until("ready").ready
        asked = len(web.asked)
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 0.3, 10, "fifteen intervals")
        assert len(web.asked) <= asked + 2
        task.release(first.seq)
        task.until("ready")
        wait_until(lambda: "prometheus.scrapes_missed" in caplog.text, 10, "a word")


def test_a_real_prometheus_is_a_target(tmp_path):
    authority = Authority(tmp_path / "tls")
    certificate, private = authority.sign("localhost", address="127.0.0.1")
    secured = f"tls_server_config: {{cert_file: {certificate}, key_file: {private}}}\n"
    with PrometheusServer(tmp_path / "server", secured) as server:
        config = {"targets": f"https://localhost:{server.port}", "tls.ca": str(authority.ca)}
        with source_task(PrometheusSource, config) as task:
            rows = task.rows(300)
    found = {row["name"]: row for row in rows}
    assert found["up"]["value"] == 1
    assert found["prometheus_build_info"]["type"] == "gauge"
    assert found["go_gc_duration_seconds_sum"]["type"] == "summary"
    assert found["prometheus_http_request_duration_seconds_bucket"]["type"] == "histogram"


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"targets": "http://u:p@a"}, "targets"), ({"targets": "a,a"}, "targets"),
        ({"targets": " "}, "targets"), ({"metrics.path": "metrics"}, "metrics.path"),
        ({"scrape.interval": "1s"}, "request.timeout"), ({"parallel": "0"}, "parallel"),
        ({"labels": "__a=b"}, "labels"), ({"response.max.bytes": "0"}, "response.max.bytes"),
        ({"targets": "b.example", "reach.hosts": "a.example"}, "targets"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_mean_anything_is_refused(more, wrong):
    _, errors = read_config(PrometheusSource.config_type, {"targets": "a:9100"} | more)
    assert [error.config_path for error in errors] == [wrong]


def test_targets_are_partitions():
    config = parse_config(
        PrometheusSource.config_type,
        {"targets": "a:9100,https://b/x", "metrics.path": "/federate?match[]=up"},
    )
    assert [one.key["target"] for one in PrometheusSource.plan(config, 9, [])] == [
        "http://a:9100/federate?match[]=up", "https://b/x",
    ]  # fmt: skip
