"""Runs the conformance kit as an author does, and compares with the result that a folder keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.checkout import ROOT

_WITHIN = 570.0
"""Seconds for all connectors of a plugin, on a machine that does other things, too."""


def run_kit(*words: str, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run `penstock plugin test` from the root of the checkout; return what it says as JSON."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "penstock.cli",
            "plugin",
            "test",
            "-o",
            "json",
            "--jobs",
            "3",
            *words,
        ],
        cwd=ROOT,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=_WITHIN,
        check=False,
    )
    assert done.stdout, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if told["conforms"] else 1), done.stderr[-2000:]
    return told


def differences(told: Mapping[str, Any], kept: Path) -> list[str]:
    """Return where a run and the kept result are not the same, without times and reasons."""
    table = json.loads(kept.read_text(encoding="utf-8"))
    wanted = {
        f"{connector or '(process)'} {case}": outcome.partition(":")[0]
        for connector, cases in table["cases"].items()
        for case, outcome in cases.items()
    }
    found = {
        f"{one['connector'] or '(process)'} {one['case']}": (one["result"], one["why"])
        for one in told["results"]
    }
    return [
        f"{name}: kept is {wanted.get(name)}, found {found.get(name)}"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name, ("",))[0]
    ]
