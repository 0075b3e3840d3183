"""The Helm chart as Kubernetes would get it: rendered by Helm.

Helm is built once, from its Go module, into a folder outside of the checkout. `HELM_BIN` names
another one. `$(PYTHONPATH=tests python -m support.chart) template shop deploy/kubernetes` shows
what it makes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from penstock.pipeline_files.files import read_flat
from support.checkout import ROOT
from support.foreign import run_tool

CHART: Final = ROOT / "deploy" / "kubernetes"
VALUES: Final = ROOT / "tests" / "contract" / "deploy"
CASES: Final = ("default", "full", "s3", "role")

BUILT: Final = 900
"""Seconds for a test that may be the first on its machine, and builds Helm: with two cores, Helm
takes three minutes, and more beside other tests."""

_HELM: Final = "v3.22.0"
_KUBERNETES: Final = "1.30.0"


@cache
def helm() -> str:
    """Return the Helm of this machine; build it when it is not there yet."""
    if named := os.environ.get("HELM_BIN"):
        return named
    cache_folder = os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock"
    folder = Path(cache_folder) / f"helm-{_HELM}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (folder / "helm").exists():
            _build(folder)
    return str(folder / "helm")


def _build(folder: Path) -> None:
    new = folder / "new"
    shutil.rmtree(new, ignore_errors=True)
    variables = ("CGO_ENABLED=0", f"GOBIN={new}", "GOFLAGS=-buildvcs=false")
    build = ("go", "install", "-ldflags=-s -w", f"helm.sh/helm/v3/cmd/helm@{_HELM}")
    run_tool("env", *variables, *build, cwd=folder)
    (new / "helm").replace(folder / "helm")
    new.rmdir()


def run_helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm."""
    command = [helm(), *map(str, arguments), "--kube-version", _KUBERNETES]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def values_of(case: str) -> list[str | Path]:
    """Return Helm's options for the values of a case."""
    file = VALUES / f"{case}-values.yaml"
    return ["--values", file] if file.exists() else []


def linted(case: str, chart: Path = CHART) -> str:
    """Return what Helm has to say about the chart; nothing when it is content."""
    done = run_helm("lint", chart, "--strict", "--quiet", *values_of(case))
    return done.stdout + done.stderr if done.returncode else ""


def render(*values: str | Path) -> subprocess.CompletedProcess[str]:
    """Let Helm make what it would install."""
    return run_helm("template", "shop", CHART, "--namespace", "data", *values)


@cache
def objects(case: str) -> tuple[dict[str, Any], ...]:
    """Return the objects of Kubernetes. They are made once: who asks changes nothing in them."""
    done = render(*values_of(case))
    assert done.returncode == 0, done.stderr
    return tuple(document for document in yaml.safe_load_all(done.stdout) if document)


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
    print(helm())
