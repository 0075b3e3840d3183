"""Settings of every test here: no fault is armed from outside, storms run only when asked for."""

import os

import pytest
from hypothesis import HealthCheck, settings

STORM = "PENSTOCK_STORM_SECONDS"

# A busy machine is slow, which is no finding: pytest's own time limit ends what hangs.
settings.register_profile(
    "penstock", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("penstock")


def pytest_configure() -> None:
    """Take an armed fault of the caller's shell away, before any product module is imported."""
    os.environ.pop("PENSTOCK_FAULTS", None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the storms out, unless the environment says how long they are to last."""
    if STORM in os.environ:
        return
    storms = [item for item in items if item.get_closest_marker("storm")]
    config.hook.pytest_deselected(items=storms)
    items[:] = [item for item in items if item not in storms]


@pytest.fixture
def storm_seconds() -> float:
    """How long a storm lasts."""
    return float(os.environ[STORM])
