"""PatternRename: renames fields by a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, Output, Transform
from penstock.transform.java.patterns import JavaPattern, JavaReplacement
from penstock.transform.parts import ROCKETMQ, Part, halves, new_name
from penstock.transform.row import Row

_FLAGS: Final = {"CASE_INSENSITIVE": "(?i)", "MULTILINE": "(?m)", "DOTALL": "(?s)", "LITERAL": ""}


@dataclass(frozen=True, slots=True)
class PatternRename:
    """Replaces what matches in names, wherever it does."""

    path: str
    part: Part
    pattern: JavaPattern
    replacement: JavaReplacement

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        before = self.part.fields(row, self.path)
        names = self.replacement.all(self.pattern, (field.name for field in before))
        after = tuple(map(self._renamed, before, names))
        return Change() if after == before else self.part.rebuilt(row, after, self.path)

    def _renamed(self, field: Output, name: str) -> Output:
        if name == field.name:
            return field
        return replace(field, name=new_name(name, f"{self.path}.field.replacement"))


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    flags = values["field.pattern.flags"]
    text = values["field.pattern"]
    if "LITERAL" in flags:
        text = "".join(f"\\{sign}" if not sign.isalnum() else sign for sign in text)
    prefix = "".join(_FLAGS[flag] for flag in flags)
    pattern = JavaPattern.compile(prefix + text, f"{path}.field.pattern")
    where = f"{path}.field.replacement"
    replacement = JavaReplacement.compile(values["field.replacement"], pattern, where)
    return PatternRename(path, part, pattern, replacement)


KINDS: Final = halves(
    "PatternRename",
    (
        ConfigKey("field.pattern", required=True, doc="A regular expression for a part of names."),
        ConfigKey(
            "field.pattern.flags", "list", (), choices=tuple(_FLAGS), doc="Flags of the pattern."
        ),
        ConfigKey("field.replacement", default="", doc="What takes its place: `$1`, `${name}`."),
    ),
    _build,
    (ROCKETMQ,),
)
