"""Schemathesis sends what the OpenAPI document allows, and what it does not. No answer may be an
error of the server, or something that the document does not say.

It takes half a minute. `PENSTOCK_FUZZ_SECONDS=150` makes it five minutes, `PENSTOCK_FUZZ_SEED`
other requests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.web import Reply, WebServer

SECONDS = int(os.environ.get("PENSTOCK_FUZZ_SECONDS", "15"))
ANSWERED = "60"  # seconds; the first rehearsal starts an engine
SEED = os.environ.get("PENSTOCK_FUZZ_SEED", "1")
RULES = Path(__file__).with_name("schemathesis.toml")
PARAMETERS = """
[parameters]
follow = false  # else the answer has no end
seconds = 1
"""
EXISTING = """
connector = "{name}"
plugin = "verifiable-source"
task = 0
version = 1

# it has to stay
[[operations]]
include-name = "DELETE /connectors/{{connector}}"
parameters.connector = "nobody"
"""


def sent(
    gateway, folder: Path, rules: str, seconds: int = SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run Schemathesis with all its checks and phases."""
    config = folder / "schemathesis.toml"
    config.write_text(rules, encoding="utf-8")
    return subprocess.run(
        [
            *(Path(sys.executable).with_name("st"), "--config-file", config, "run"),
            *("--checks", "all", "--phases", "examples,coverage,fuzzing,stateful"),
            # what is accepted depends on plugins and on states, which no document tells
            *("--exclude-checks", "positive_data_acceptance"),
            *("--max-time", str(seconds), "--seed", SEED),
            *("--request-timeout", ANSWERED, "--max-response-time", ANSWERED),
            *("--suppress-health-check", "all", "--continue-on-failure", "--warnings", "off"),
            f"http://{gateway.address}/openapi.json",
        ],
        cwd=folder, capture_output=True, text=True, timeout=SECONDS * 3 + 120, check=False,
    )  # fmt: skip


@pytest.mark.timeout(SECONDS * 3 + 180)
@pytest.mark.parametrize("existing", [False, True], ids=["any name", "a connector that exists"])
def test_nothing_that_is_sent_breaks_it(gateway, made, tmp_path, existing):
    of_one = EXISTING.format(name=made().rpartition("/")[2]) if existing else ""
    done = sent(gateway, tmp_path, PARAMETERS + of_one + RULES.read_text(encoding="utf-8"))
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert "Tested: " in done.stdout
    assert gateway.get("/health").json()["status"] == "healthy"


def test_a_server_that_breaks_is_seen(tmp_path):
    """The twin of the test above: one operation, which answers with an error of its own."""
    answers = {"responses": {"200": {"description": "It is well."}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "a server that breaks", "version": "1"},
        "paths": {"/broken": {"get": answers}},
    }
    web = WebServer()
    web.answer = lambda asked: (
        Reply(document) if asked.path == "/openapi.json" else Reply(status=500)
    )
    try:
        done = sent(SimpleNamespace(address=f"127.0.0.1:{web.port}"), tmp_path, "", seconds=2)
    finally:
        web.close()
    assert done.returncode == 1, done.stdout[-5_000:]
    assert "Server error" in done.stdout
