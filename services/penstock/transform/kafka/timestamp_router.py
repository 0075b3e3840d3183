"""TimestampRouter: known by name, and refused where it would route rows one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Kind, Transform
from penstock.transform.parts import KAFKA
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class RouteByTimestamp:
    """Renames every dataset. Rows of one dataset go to one place: a name with each row's time in it
    is refused when the chain is built.
    """

    format: str

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del row
        routed = self.format.replace("${topic}", dataset)
        return Change(dataset=routed) if routed != dataset else Change()


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    if "${timestamp}" in values["topic.format"]:
        raise ConfigError(
            "transform.route_per_row",
            "TimestampRouter would send rows of one dataset to many places: that cannot be done",
            fix="Partition the sink by time, or leave `${timestamp}` out of `topic.format`.",
            config_path=f"{path}.topic.format",
        )
    if not values["topic.format"]:
        raise ConfigError(
            "transform.empty_dataset",
            "every dataset would get an empty name",
            fix="Let the format keep `${topic}`.",
            config_path=f"{path}.topic.format",
        )
    return RouteByTimestamp(values["topic.format"])


KINDS: Final = (
    Kind[Transform](
        ("TimestampRouter", f"{KAFKA}.TimestampRouter"),
        (
            ConfigKey("topic.format", default="${topic}-${timestamp}", doc="The new name."),
            ConfigKey(
                "timestamp.format",
                default="yyyyMMdd",
                doc="Pattern of `${timestamp}`.",
                no_effect="names have no `${timestamp}`: rows are not routed one by one",
            ),
        ),
        _build,
    ),
)
