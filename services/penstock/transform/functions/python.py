"""python: a function of the user over batches or rows, run in the executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Kind, Transform
from penstock.transform.functions.declared import declared
from penstock.transform.functions.kernel import FunctionKernel
from penstock.transform.functions.modules import Code, code_of
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function and the columns that it declares; None: those that it is given. `code` is what the
    file had when the chain was built: a change of it counts at the next start.
    """

    path: str
    function: str
    columns: pa.Schema | None
    by_row: bool
    code: Code | None = None

    def found(self, folders: Sequence[Path]) -> PythonFunction:
        """Return it with its code, from the folders that the node allows."""
        code = code_of(self.function, folders, f"{self.path}.function")
        return replace(self, code=code)

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        if self.code is None:
            raise AssertionError("the file of a function is read before rows are seen")
        made = self.columns or pa.schema([self._kept(c.name, c.type) for c in row.value])
        reserved = [self._kept(c.name, c.type) for c in row if is_reserved(c.name)]
        schema = pa.schema([*made, *reserved])
        kernel = FunctionKernel(
            f"{self.path}.function", self.code, schema, frozenset(made.names), self.by_row
        )
        return Change(kernel=kernel, schema=schema)

    def _kept(self, name: str, type_: pa.DataType | None) -> pa.Field:
        if type_ is None:
            raise ConfigError(
                "transform.unknown_type",
                f"the type of `{name}` is known to Spark only, so it cannot be what comes out",
                fix="Declare the columns that the function gives, or use Cast before it.",
                config_path=f"{self.path}.columns",
            )
        return pa.field(name, type_)


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    text = values["columns"]
    columns = None if text is None else declared(text, f"{path}.columns")
    return PythonFunction(path, values["function"], columns, values["mode"] == "row")


KINDS: Final = (
    Kind[Transform](
        ("python",),
        (
            ConfigKey("function", required=True, doc="`module:function` in `functions.path`."),
            ConfigKey(
                "mode",
                default="batch",
                choices=("batch", "row"),
                doc="Whether it takes Arrow record batches, or rows as dicts.",
            ),
            ConfigKey("columns", doc="Columns that come out, `name type, …`; default: as given."),
        ),
        _build,
    ),
)
