"""Settings of every test here: no fault is armed from outside, and long files begin first."""

import os
import sys

import support.hypothesis_profile  # noqa: F401 - loaded by its import
from support.order import (  # noqa: F401 - hooks, found by their names
    pytest_collection_modifyitems,
    pytest_xdist_make_scheduler,
)


def pytest_configure() -> None:
    """Take an armed fault of the caller's shell away, before any product module is imported."""
    os.environ.pop("PENSTOCK_FAULTS", None)
    # JVMs of tests live for seconds: without the second compiler they cost half as much
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


def pytest_sessionfinish() -> None:
    """End the engine that tests of this process shared, if there was one."""
    if shared := sys.modules.get("support.engine"):
        shared.end_kept()
