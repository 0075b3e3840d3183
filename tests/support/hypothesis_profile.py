"""The profile of Hypothesis for all tests; importing it loads it.

A busy machine is slow, which is no finding: pytest's own time limit ends what hangs.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "penstock", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("penstock")
