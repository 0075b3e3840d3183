"""The page for browsers: it is served whole, asks nobody else, and computes what `top` does."""

import json
import re
import subprocess

import pytest

from penstock.cli.top import Rates
from support.checkout import ROOT

SCRIPT = ROOT / "services/penstock/gateway/page/page.mjs"


def test_the_page_is_whole_and_asks_nobody_else(gateway):
    page = gateway.get("/ui")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    named = [one for one in re.findall(r'(?:src|href)="([^"]+)"', page.text) if one != "data:,"]
    assert {"ui/page.css", "ui/page.mjs", "metrics", "openapi.json"} == set(named)
    for path in named:
        assert gateway.get(f"/{path}").status_code == 200, path
    script = gateway.get("/ui/page.mjs")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    asked = re.findall(r'fetchJson\([`"](.+?)[`"?]', script.text)
    assert {gateway.get(f"/{path}").status_code for path in asked} == {200}, asked
    assert "innerHTML" not in script.text


def test_a_browser_is_led_to_it_and_a_client_is_not(gateway):
    browser = gateway.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (browser.status_code, browser.headers["location"]) == (307, "ui")
    for accept in ("*/*", "application/json"):
        assert gateway.get("/", headers={"Accept": accept}).json()["version"]


TASK = {"id": 0, "state": "RUNNING", "epoch": 7, "restarts": 1, "rows_failed": 2, "trace": None}
SHARES = {"time_shares": {"source": 0.9, "sink": 0.1}, "busy_with": "waits for the source"}


def connector(read, written, **more):
    task = TASK | SHARES | {"rows_read": read, "rows_written": written, "rows_left": 5} | more
    return {"name": "a", "kind": "source", "state": "RUNNING", "why": None, "tasks": [task]}


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (connector(0, 0), connector(400, 200)),
        (connector(900, 900), connector(100, 100, epoch=8)),
        (connector(0, 0), connector(10, 10, rows_left=None, trace="it broke", state="FAILED")),
        (connector(0, 0), {**connector(0, 0), "tasks": [], "state": "UNASSIGNED", "why": "no"}),
    ],
)
def test_its_numbers_are_those_of_top(then, now):
    program = f"""
        import {{ rowsOf, samplesOf }} from {json.dumps(SCRIPT.as_uri())};
        const [then, now] = {json.dumps([[then], [now]])};
        const [before, after] = [samplesOf(then, 0), samplesOf(now, 2000)];
        console.log(JSON.stringify(rowsOf(now, before, after)));
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", program],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    (row,) = json.loads(done.stdout)
    rates = Rates()
    rates.rows({"connectors": [then]}, 0.0)
    (expected,) = rates.rows({"connectors": [now]}, 2.0)
    shown = {
        "connector": row["name"], "state": row["state"], "tasks": row["tasks"],
        "rows/s in": f"{row['read']:,.0f}", "rows/s out": f"{row['written']:,.0f}",
        "left": None if row["left"] is None else f"{row['left']:,}",
        "bad": row["bad"], "restarts": row["restarts"], "why": row["why"] or None,
    }  # fmt: skip
    assert shown == {name: expected[name] for name in shown}
