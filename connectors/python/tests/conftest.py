"""What the tests of the SDK share: the examples as modules, and processes that end."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
DEADLINE = 60


def _example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def counter():
    return _example("counter").Counter


@pytest.fixture(scope="session")
def jsonl():
    return _example("jsonl").JsonLinesSink


@pytest.fixture(scope="session")
def mask():
    return _example("mask").Mask


@pytest.fixture(scope="session")
def host_metrics():
    return _example("host_metrics").HostMetrics


@pytest.fixture(scope="session")
def tables():
    return _example("tables").TablesSink


@pytest.fixture
def launch(tmp_path):
    """Start a plugin as a host does; give the process and its first line of stdout."""
    running = []

    def start(path=EXAMPLES / "counter.py", *arguments, first_line=True, through=(), **environment):
        wanted = {
            "PENSTOCK_PLUGIN_MAGIC_COOKIE": "cookie",
            "PLUGIN_PROTOCOL_VERSIONS": "1",
            "PLUGIN_UNIX_SOCKET_DIR": str(tmp_path),
            "PENSTOCK_INSTANCE_NONCE": "a-nonce",
            "PATH": os.environ["PATH"],
        } | environment
        process = subprocess.Popen(
            [*through, sys.executable, str(path), *arguments],
            env={name: value for name, value in wanted.items() if value is not None},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process, process.stdout.readline().strip() if first_line else ""

    yield start
    for process in running:
        process.kill()
        if process.stdin is not None and process.stdin.closed:
            process.stdin = None  # communicate would flush it
        process.communicate(timeout=DEADLINE)
