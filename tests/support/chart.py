"""The Helm chart as Kubernetes would get it: rendered by helm, kept beside the tests.

`python -m support.chart` renders anew, with HELM_BIN, or `helm` of the path, and only what `helm
lint --strict` has nothing to say about. A digest of the chart, of the values and of what helm made
tells a machine without helm whether the three still belong together.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from penstock.standalone.files import read_flat
from support.checkout import ROOT

CHART: Final = ROOT / "deploy" / "kubernetes"
KEPT: Final = ROOT / "tests" / "contract" / "deploy"
CASES: Final = ("default", "full", "s3", "role")
_KUBERNETES: Final = "1.30.0"


def helm() -> str | None:
    """Return the helm of this machine, None when it has none."""
    return shutil.which(os.environ.get("HELM_BIN") or "helm")


def run_helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run helm."""
    command = [helm() or "helm", *map(str, arguments), "--kube-version", _KUBERNETES]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def values_of(case: str) -> list[str | Path]:
    """Return helm's options for the values of a case."""
    file = KEPT / f"{case}-values.yaml"
    return ["--values", file] if file.exists() else []


def rendered(case: str) -> str:
    """Return what helm makes of the chart now, and finds nothing to say about."""
    lint = run_helm("lint", CHART, "--strict", *values_of(case))
    assert lint.returncode == 0, lint.stdout + lint.stderr
    done = run_helm("template", "shop", CHART, "--namespace", "data", *values_of(case))
    assert done.returncode == 0, done.stderr
    return f"{first_line(case, done.stdout)}\n{done.stdout}"


def kept(case: str) -> str:
    """Return what helm made of it when it was last rendered."""
    return (KEPT / f"{case}.yaml").read_text(encoding="utf-8")


@cache
def objects(case: str) -> tuple[dict[str, Any], ...]:
    """Return the objects of Kubernetes. They are read once: who asks changes nothing in them."""
    return tuple(document for document in yaml.safe_load_all(kept(case)) if document)


def first_line(case: str, body: str, chart: Path = CHART) -> str:
    """Return the line that ties what helm made to all that it made it of."""
    digest = hashlib.sha256()
    values = KEPT / f"{case}-values.yaml"
    for file in (*chart_files(chart), *([values] if values.exists() else [])):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    digest.update(body.encode())
    return f"# digest {digest.hexdigest()}"


def chart_files(chart: Path = CHART) -> Iterator[Path]:
    """Yield the files that helm reads."""
    yield from sorted(chart.glob("*.yaml"))
    yield chart / "values.schema.json"
    yield from sorted((chart / "templates").iterdir())


def of_kind(case: str, kind: str) -> list[dict[str, Any]]:
    """Return the objects of a kind."""
    return [one for one in objects(case) if one["kind"] == kind]


def workload(case: str, service: str) -> dict[str, Any]:
    """Return what runs a service."""
    found = [o for o in objects(case) if o["kind"] in {"Deployment", "StatefulSet"}]
    return next(o for o in found if o["metadata"]["name"].endswith(f"-{service}"))


def pod(case: str, service: str) -> dict[str, Any]:
    """Return what the pods of a service are made of."""
    spec: dict[str, Any] = workload(case, service)["spec"]["template"]["spec"]
    return spec


def container(case: str, service: str) -> dict[str, Any]:
    """Return the one container of a service's pods."""
    one: dict[str, Any]
    (one,) = pod(case, service)["containers"]
    return one


def environment(case: str, service: str) -> dict[str, str]:
    """Return the variables of a pod; `x` stands for what secrets and the pod itself say."""
    return {one["name"]: one.get("value", "x") for one in container(case, service)["env"]}


def own_keys(case: str, service: str, folder: Path) -> dict[str, str]:
    """Return the keys of a pod's file, read as the service reads them. What its certificate's
    secret has is in the folder, where the service looks at it.
    """
    (keys,) = of_kind(case, "ConfigMap")
    file = folder / f"{service}.yaml"
    file.write_text(keys["data"][file.name].replace("/etc/penstock/tls", str(folder)))
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (folder / name).write_text("x")
    return read_flat(file)


if __name__ == "__main__":
    for name in CASES:
        (KEPT / f"{name}.yaml").write_text(rendered(name), encoding="utf-8")
