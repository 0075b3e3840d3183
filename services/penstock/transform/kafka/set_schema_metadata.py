"""SetSchemaMetadata: gives the schema of the value or key a name and a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Transform
from penstock.transform.parts import NULLS, Part, halves
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class SetSchemaMetadata:
    """Labels the schema that the sink is told: `penstock.schema.name` and `.version` in its
    metadata, `penstock.key.schema.…` for keys. No row changes.
    """

    labels: tuple[tuple[str, str], ...]

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset, row
        return Change(labels=self.labels)


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    name, version = values["schema.name"], values["schema.version"]
    if name is None and version is None:
        raise ConfigError(
            "config.missing",
            "SetSchemaMetadata sets nothing",
            fix="Set `schema.name`, `schema.version` or both.",
            config_path=path,
        )
    prefix = "penstock.schema" if part is Part.VALUE else "penstock.key.schema"
    labels = ((f"{prefix}.name", name), (f"{prefix}.version", version))
    return SetSchemaMetadata(tuple((key, str(text)) for key, text in labels if text is not None))


KINDS: Final = halves(
    "SetSchemaMetadata",
    (
        ConfigKey("schema.name", doc="Name of the schema."),
        ConfigKey("schema.version", "int", doc="Version of the schema."),
        NULLS,
    ),
    _build,
)
