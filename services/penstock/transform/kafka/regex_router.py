"""RegexRouter: gives a dataset (its topic, in Kafka's words) another name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Kind, Transform
from penstock.transform.java.patterns import JavaPattern, JavaReplacement
from penstock.transform.parts import KAFKA, ROCKETMQ
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class RouteByRegex:
    """Renames the datasets whose whole name matches; then the first place that matches is replaced,
    which is what Kafka does (`matches`, then `replaceFirst`).
    """

    path: str
    pattern: JavaPattern
    replacement: JavaReplacement

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del row
        if not self.pattern.matches(dataset):
            return Change()
        routed = self.replacement.first(self.pattern, dataset)
        if not routed:
            raise ConfigError(
                "transform.empty_dataset",
                f"`{dataset}` would get an empty name",
                fix="Let the replacement keep something.",
                config_path=f"{self.path}.replacement",
            )
        return Change(dataset=routed) if routed != dataset else Change()


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    pattern = JavaPattern.compile(values["regex"], f"{path}.regex")
    replacement = JavaReplacement.compile(values["replacement"], pattern, f"{path}.replacement")
    return RouteByRegex(path, pattern, replacement)


KINDS: Final = (
    Kind[Transform](
        ("RegexRouter", f"{KAFKA}.RegexRouter", f"{ROCKETMQ}.RegexRouter"),
        (
            ConfigKey("regex", required=True, doc="A regular expression for the whole name."),
            ConfigKey("replacement", required=True, doc="The new name, with `$1` or `${name}`."),
        ),
        _build,
    ),
)
