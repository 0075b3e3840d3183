"""One function for each case, in files by what they look at; importing this registers them all.

`starting`, `ending`, `describing` look at the process; `configuring`, `hiding` at any connector;
`telling`, `resuming`, `bounding`, `owning`, `obeying` at a source; `putting`, `committing`,
`recovering`, `holding` at a sink.
"""

from penstock.conformance.checks import (
    bounding,
    committing,
    configuring,
    describing,
    ending,
    hiding,
    holding,
    obeying,
    owning,
    putting,
    recovering,
    resuming,
    starting,
    telling,
)
from penstock.conformance.checks.register import CHECKS

__all__ = [
    "CHECKS",
    "bounding",
    "committing",
    "configuring",
    "describing",
    "ending",
    "hiding",
    "holding",
    "obeying",
    "owning",
    "putting",
    "recovering",
    "resuming",
    "starting",
    "telling",
]
