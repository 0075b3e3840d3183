"""The dashboard and the alerts name metrics that there are, with labels that they have."""

import json
import re

import pytest
import yaml

from reference.metric_names import sample_families
from support.checkout import ROOT

FOLDER = ROOT / "deploy" / "otel"
ALERTS = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
TARGETS = [t["expr"] for panel in DASHBOARD["panels"] for t in panel["targets"]]
QUERIES = [v["query"] for v in DASHBOARD["templating"]["list"] if v["type"] == "query"]
NAME = re.compile(r"\b(?:penstock|kafka_connect)_\w+")


TOLD = {s.name: set(s.labels) for family in sample_families() for s in family.samples}


@pytest.mark.parametrize("expression", [*[rule["expr"] for rule in RULES], *TARGETS, *QUERIES])
def test_every_metric_that_is_named_is_told(expression):
    names = NAME.findall(expression)
    assert names
    assert set(names) <= TOLD.keys()
    for name, labels in re.findall(r"(\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*[=!]~?", labels)) <= TOLD[name]
    for labels in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
        wanted = {label.strip() for label in labels.split(",")}
        assert all(wanted <= TOLD[name] for name in names)


def test_a_metric_that_is_not_told_goes_red():
    with pytest.raises(AssertionError):
        test_every_metric_that_is_named_is_told("penstock_task_rows_red_total")
    with pytest.raises(AssertionError):
        test_every_metric_that_is_named_is_told('penstock_task_state{stat="failed"}')


GREATEST = re.compile(r"max(?: by \([^)]*\) )?\((?:\w+\()?$")


def counted_twice(expression):
    """Metrics that are not the greatest of what several gateways tell."""
    found = NAME.finditer(expression)
    return [name[0] for name in found if not GREATEST.search(expression[: name.start()])]


@pytest.mark.parametrize("expression", [*[rule["expr"] for rule in RULES], *TARGETS])
def test_gateways_that_are_scraped_together_are_not_counted_twice(expression):
    assert counted_twice(expression) == []


def test_a_sum_over_gateways_goes_red():
    expression = "sum(penstock_tasks_moving) + max(penstock_tasks_moving)"
    assert counted_twice(expression) == ["penstock_tasks_moving"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_names_a_runbook_that_there_is(rule):
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["summary"]
    assert (ROOT / rule["annotations"]["runbook"]).is_file()


def test_all_of_ours_are_in_the_readme():
    text = (FOLDER / "README.md").read_text()
    ours = [family.name for family in sample_families() if family.name.startswith("penstock_")]
    for name in ours:
        short = name.removeprefix("penstock_")
        _, _, rest = short.partition("_")
        parts = {
            short,
            short.removeprefix("task"),
            short.removeprefix("dataset"),
            f"`_{rest}",
            name,
        }
        assert any(part in text for part in parts), name


def test_all_of_kafka_connects_are_in_the_readme():
    text = (FOLDER / "README.md").read_text()
    names = [family.name for family in sample_families() if not family.name.startswith("penstock_")]
    told = {name.removeprefix("kafka_connect_") for name in names}
    table = text.partition("## Kafka Connect's names")[2].partition("not there")[0]
    groups = re.findall(r"^\| `kafka_connect_(\w+)` \| (.*) \|$", table, re.MULTILINE)
    named = {group + name for group, names in groups for name in re.findall(r"`(\w+)`", names)}
    assert named == told
