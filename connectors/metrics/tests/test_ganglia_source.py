"""`ganglia-source` and a real gmond: samples, what is stale, and what answers something else."""

import json
import re
from pathlib import Path

import pytest
import yaml

from penstock_connector import ConfigError, DataError, RetriableError
from penstock_connector._config import parse_config, read_config
from penstock_connector.testing import source_task
from penstock_kit.testing import wait_until
from penstock_metrics import GangliaSource
from penstock_metrics.ganglia_source.report import NotGanglia, ReportRules, parse_report
from support.ganglia import CLUSTER, HOST, FakeGmond, GmondServer
from support.processes import PLAIN
from system.pipelines import Pipeline

pytestmark = pytest.mark.timeout(300)

README = Path(__file__).parent.parent / "README.md"
RULES = ReportRules(stale_after=4, honor_timestamps=False, prometheus_names=True)
AT = 1_700_000_000_000


@pytest.fixture(scope="module")
def gmond(tmp_path_factory):
    with GmondServer(tmp_path_factory.mktemp("gmond")) as server:
        yield server


def config(target, **more):
    given = {"targets": target, "scrape.interval": "1h"}
    return given | {name.replace("_", "."): str(value) for name, value in more.items()}


def scraped(target, **more):
    """The rows of one scrape by name."""
    with source_task(GangliaSource, config(target, **more)) as task:
        return {row["name"]: row for row in task.rows(4)}


def test_what_gmond_and_applications_report_are_samples(gmond):
    gmond.report("queue size", 12.5, units="messages", slope="positive", group="shop")
    wait_until(lambda: "queue_size" in scraped(gmond.target), 60, "the metric")
    rows = scraped(gmond.target)
    row = rows["queue_size"]
    assert (row["value"], row["type"]) == (12.5, "counter")
    assert dict(row["labels"]) == {
        "job": "penstock", "instance": gmond.target, "cluster": CLUSTER, "host": HOST,
        "unit": "messages", "group": "shop",
    }  # fmt: skip
    assert rows["mem_total"]["value"] > rows["mem_free"]["value"] > 0
    assert rows["mem_total"]["type"] == "gauge"
    assert dict(rows["mem_total"]["labels"])["unit"] == "KB"
    assert "os_name" not in rows  # a text
    assert (rows["up"]["value"], rows["ganglia_host_up"]["value"]) == (1, 1)
    assert rows["scrape_samples_scraped"]["value"] == len(rows) - 4
    assert "queue size" in scraped(gmond.target, prometheus_names="false")


def test_a_metric_that_is_reported_no_more_is_stale(gmond):
    gmond.report("once", 1, tmax="1")
    wait_until(lambda: "once" in scraped(gmond.target, stale_after="0"), 60, "the metric")
    wait_until(lambda: "once" not in scraped(gmond.target, stale_after="1"), 60, "it is stale")
    rows = scraped(gmond.target, stale_after="1")
    assert rows["ganglia_metrics_stale"]["value"] >= 1
    assert "once" in scraped(gmond.target, stale_after="0")


def test_a_gmond_that_is_restarted_is_down_and_up_again(tmp_path, caplog):
    with GmondServer(tmp_path) as own:
        given = config(own.target, scrape_interval="1s", request_timeout="1s")
        with source_task(GangliaSource, given) as task:
            wait_until(lambda: up(task) == 1, 60, "it answers")
            own.kill()
            wait_until(lambda: up(task) == 0, 60, "it is down")
            own.start()
            wait_until(lambda: up(task) == 1, 60, "it answers again")
    assert "[metrics.unreachable]" in caplog.text
    assert "is up again" in caplog.text


def up(task):
    return [row["value"] for row in task.rows(1) if row["name"] == "up"][-1]


def ganglia(inside, head=""):
    return f'<?xml version="1.0"?>{head}<GANGLIA_XML VERSION="3">{inside}</GANGLIA_XML>'.encode()


def host(*metrics, times='TN="1" TMAX="20"', name="a"):
    return f'<CLUSTER NAME="c"><HOST NAME="{name}" {times}>{"".join(metrics)}</HOST></CLUSTER>'


def metric(name="m", value="1", more='TN="3" TMAX="60"', kind="double"):
    return f'<METRIC NAME="{name}" VAL="{value}" TYPE="{kind}" {more}/>'


def rows_of(body, rules=RULES):
    report = parse_report(body, rules)
    rows = report.rows({"job": "j"}, AT, honor_timestamps=rules.honor_timestamps)
    return rows.to_pylist(), report


def test_reports_of_grids_clusters_and_hosts():
    inside = (
        '<GRID NAME="g">'
        + host(metric("1é", kind="uint32"), metric("f", " 2.5e3 "), metric("t", "x", kind="string"))
        + host(metric(), times='TN="81" TMAX="20"', name="b")
        + "</GRID>"
        + host(metric("n", "nan", more=""), metric("late", more='TN="241" TMAX="60"'), times="")
    )
    rows, report = rows_of(ganglia(inside))
    shown = [(row["name"], row["value"], dict(row["labels"])) for row in rows]
    in_grid = {"job": "j", "cluster": "c", "grid": "g"}
    assert shown[:4] == [
        ("ganglia_host_up", 1, in_grid | {"host": "a"}), ("_1_", 1, in_grid | {"host": "a"}),
        ("f", 2500, in_grid | {"host": "a"}), ("ganglia_host_up", 0, in_grid | {"host": "b"}),
    ]  # fmt: skip
    assert [name for name, _, _ in shown[4:]] == ["ganglia_host_up", "n"]
    assert shown[4][2] == {"job": "j", "cluster": "c", "host": "a"}
    assert (report.stale, report.bad) == (2, [])


def test_a_sample_may_have_the_time_of_its_report():
    honored = ReportRules(stale_after=0, honor_timestamps=True, prometheus_names=True)
    rows, _ = rows_of(ganglia(host(metric(more='TN="90" TMAX="1"'))), honored)
    assert [row["timestamp"].timestamp() for row in rows] == [AT / 1000, AT / 1000 - 90]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (metric(value="many"), "value 'many'"), (metric(value="1_0"), "value '1_0'"),
        (metric(value=""), "value ''"), (metric(more='TN="-1"'), "TN '-1'"),
        (metric(more='TMAX="soon"'), "TMAX 'soon'"), (metric(more='TN="99999999999"'), "TN"),
        (metric(name=""), "no name"),
    ],
    ids=range(7),
)  # fmt: skip
def test_a_metric_that_is_no_sample_is_a_bad_row_and_the_others_are_read(wrong, why):
    rows, report = rows_of(ganglia(host(wrong, metric("good"))))
    assert [row["name"] for row in rows] == ["ganglia_host_up", "good"]
    (bad,) = report.bad
    assert bad.error.code == "ganglia.bad_metric"
    assert why in bad.error.message
    assert json.loads(bad.raw)["HOST"] == "a"


BOMB = (
    '<!DOCTYPE GANGLIA_XML [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>'
)


@pytest.mark.parametrize(
    ("body", "why", "refused"),
    [
        (b"", "in line 1", False), (b"<html></html>", "'html'", False),
        (b"HTTP/1.1 400\r\n", "in line 1", False),
        (ganglia(host(metric()))[:-20], "in line 1", False),
        (ganglia(host(metric()))[:-14], "in line 1", False),
        (ganglia("<HOST>"), "in line 1", False), (ganglia("&x;"), "in line 1", False),
        (ganglia("", BOMB), "entity 'a'", True),
        (ganglia("", '<!DOCTYPE GANGLIA_XML [<!ENTITY % p "x">]>'), "entity 'p'", True),
        (ganglia("", '<!DOCTYPE GANGLIA_XML [<!ENTITY f SYSTEM "file:///etc/passwd">]>'),
         "entity 'f'", True),
        (ganglia("", '<!DOCTYPE GANGLIA_XML SYSTEM "http://a.example/x.dtd">'), "elsewhere", True),
        (ganglia("", f'<!DOCTYPE GANGLIA_XML [<!ATTLIST HOST NAME CDATA "{"x" * 99}">]>'),
         "99 characters", True),
        (ganglia("<GRID>" * 40 + "</GRID>" * 40), "32 elements", True),
    ],
    ids=range(13),
)  # fmt: skip
def test_what_is_no_report_is_refused(body, why, refused):
    with pytest.raises(NotGanglia) as told:
        parse_report(body, RULES)
    assert why in str(told.value)
    assert told.value.refused is refused


@pytest.mark.parametrize(
    ("body", "hangs", "code"),
    [
        (b"HTTP/1.1 400\r\n", False, "ganglia.not_gmond"),
        (b"\x1f\x8b\x08\x00", False, r"ganglia.not_gmond.*gzip_output"),
        (ganglia("", BOMB), False, "ganglia.unsafe_xml"),
        (ganglia(host(metric() * 100)), False, "metrics.too_large"),
        (b"<GANGLIA_XML>", True, "metrics.timeout"),
    ],
    ids=["other", "packed", "entities", "large", "hanging"],
)
def test_what_answers_wrong_is_down_with_a_word(caplog, body, hangs, code):
    with FakeGmond(body, hangs=hangs) as server:
        patience = "500ms" if hangs else "10s"
        given = config(server.target, response_max_bytes="1000", request_timeout=patience)
        with source_task(GangliaSource, given) as task:
            rows = task.rows(3)
        checked = parse_config(GangliaSource.config_type, given)
        with pytest.raises((ConfigError, DataError, RetriableError), match=code):
            GangliaSource.check(checked)
    assert [row["value"] for row in rows if row["name"] == "up"] == [0]
    assert f"[{code.partition('.*')[0]}]" in caplog.text


def test_bad_metrics_become_dead_letters():
    with FakeGmond(ganglia(host(metric(value="many"), metric("good")))) as server:
        with source_task(GangliaSource, config(server.target)) as task:
            bad = task.until("bad_row").bad_row
        assert bad.reason.code == "ganglia.bad_metric"
        assert "good" in scraped(server.target)


def test_targets_are_partitions_with_their_ports():
    given = parse_config(GangliaSource.config_type, {"targets": "a, b:8651, [::1]"})
    assert [one.key["target"] for one in GangliaSource.plan(given, 9, [])] == [
        "a:8649", "b:8651", "[::1]:8649",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"targets": "a:b"}, "targets"), ({"targets": "http://a"}, "targets"),
        ({"targets": "a,a:8649"}, "targets"), ({"targets": " "}, "targets"),
        ({"stale.after": "-1"}, "stale.after"), ({"stale.after": "nan"}, "stale.after"),
        ({"scrape.interval": "1s"}, "request.timeout"), ({"parallel": "0"}, "parallel"),
        ({"targets": "b.example", "reach.hosts": "a.example"}, "targets"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_mean_anything_is_refused(more, wrong):
    _, errors = read_config(GangliaSource.config_type, {"targets": "a"} | more)
    assert [error.config_path for error in errors] == [wrong]


def test_the_example_of_the_readme_stores_samples(gmond, tmp_path):
    """`penstock run ganglia.yaml`."""
    text = README.read_text(encoding="utf-8")
    example = re.search(r"## `ganglia-source`.*?```yaml\n(.*?)```", text, re.DOTALL)[1]
    document = yaml.safe_load(example)
    document["source"]["targets"] = gmond.target
    document["sink"]["path"] = str(tmp_path / "out")
    with Pipeline(tmp_path / "run", document, module=PLAIN).running():
        wait_until(lambda: stored(tmp_path / "out"), 120, "rows")
    assert {"mem_free", "ganglia_host_up", "up"} <= {
        row["name"] for row in stored(tmp_path / "out")
    }  # fmt: skip


def stored(out):
    """The rows in the files that are written so far."""
    texts = [file.read_text(encoding="utf-8") for file in out.rglob("*.jsonl")]
    return [json.loads(line) for text in texts for line in text.splitlines()]
