"""ReplaceField: keeps, drops and renames fields of the value or the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.model.columns import is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Transform
from penstock.transform.parts import NULLS, Part, halves, new_name
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class ReplaceField:
    """Keeps `include` (all when empty) without `exclude`, and renames. Names that a dataset does
    not have are passed over, as in Kafka: datasets of one connector differ.
    """

    path: str
    part: Part
    include: frozenset[str]
    exclude: frozenset[str]
    renames: tuple[tuple[str, str], ...]

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        before = self.part.fields(row, self.path)
        new_names = dict(self.renames)
        after = tuple(
            replace(field, name=new_names.get(field.name, field.name))
            for field in before
            if self._keeps(field.name)
        )
        if after == before:
            return Change()
        return self.part.rebuilt(row, after, self.path)

    def _keeps(self, name: str) -> bool:
        return name not in self.exclude and (not self.include or name in self.include)


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    for old, new in (("whitelist", "include"), ("blacklist", "exclude")):
        if values[old] is not None:
            raise ConfigError(
                "config.unknown_key",
                f"there is no key `{old}` any more, as in Kafka 4",
                fix=f"Use `{new}`.",
                config_path=f"{path}.{old}",
                suggestion=new,
            )
    for key in ("include", "exclude"):
        for name in values[key]:
            _refuse_reserved(name, f"{path}.{key}")
    renames = tuple(_rename(text, f"{path}.renames") for text in values["renames"])
    return ReplaceField(
        path, part, frozenset(values["include"]), frozenset(values["exclude"]), renames
    )


def _rename(text: str, path: str) -> tuple[str, str]:
    old, colon, new = text.partition(":")
    if not (old and colon and new) or ":" in new:
        raise ConfigError(
            "config.wrong_type",
            f"`{text}` is not a renaming",
            fix="Write `old:new`, several separated by commas.",
            config_path=path,
        )
    _refuse_reserved(old, path)
    return old, new_name(new, path)


def _refuse_reserved(name: str, path: str) -> None:
    if is_reserved(name):
        raise ConfigError(
            "transform.reserved_column",
            f"`{name}` is a reserved column and not part of the row",
            fix="Remove it: reserved columns are always kept.",
            config_path=path,
        )


_KEYS: Final = (
    ConfigKey("include", "list", (), doc="Fields to keep; all when empty."),
    ConfigKey("exclude", "list", (), doc="Fields to drop; goes before `include`."),
    ConfigKey("renames", "list", (), doc="Renamings `old:new`."),
    NULLS,
    ConfigKey("whitelist", doc="Removed: use `include`."),
    ConfigKey("blacklist", doc="Removed: use `exclude`."),
)

KINDS: Final = halves("ReplaceField", _KEYS, _build)
