"""The transform `python`: a function of the user for batches or rows, run in the executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Transform, TypeDefinition
from penstock.transform.functions.code import Code, load_code
from penstock.transform.functions.column_declaration import parse_columns
from penstock.transform.functions.kernel import FunctionKernel
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function and its declared output columns; None: those of the input. `code` is the file as
    it was when the chain was built: a change of the file takes effect at the next start.
    """

    path: str
    function: str
    columns: pa.Schema | None
    by_row: bool
    code: Code | None = None

    def with_code(self, folders: Sequence[Path]) -> PythonFunction:
        """Return the transform with its code, read from the folders that the node allows."""
        code = load_code(self.function, folders, f"{self.path}.function")
        return replace(self, code=code)

    def resolve(self, dataset: str, row: Row) -> Change:
        """Replace the columns by those of the function."""
        if self.code is None:
            raise AssertionError("`with_code` is called before rows are seen")
        declared = self.columns or pa.schema([self._input_field(c.name, c.type) for c in row.value])
        reserved = [self._input_field(c.name, c.type) for c in row if is_reserved(c.name)]
        schema = pa.schema([*declared, *reserved])
        kernel = FunctionKernel(
            f"{self.path}.function", self.code, schema, frozenset(declared.names), self.by_row
        )
        return Change(kernel=kernel, kernel_row=Row.of(schema))

    def _input_field(self, name: str, type_: pa.DataType | None) -> pa.Field:
        if type_ is None:
            raise ConfigError(
                "transform.unknown_type",
                f"the type of `{name}` is known only to Spark, so the output columns are unknown",
                fix="Declare the output columns in `columns`, or use Cast before this transform.",
                config_path=f"{self.path}.columns",
            )
        return pa.field(name, type_)


def _build_python_function(path: str, values: Mapping[str, Any]) -> Transform:
    text = values["columns"]
    columns = None if text is None else parse_columns(text, f"{path}.columns")
    return PythonFunction(path, values["function"], columns, values["mode"] == "row")


TRANSFORMS: Final = (
    TypeDefinition[Transform](
        ("python",),
        (
            ConfigKey("function", required=True, doc="`module:function` in `functions.path`."),
            ConfigKey(
                "mode",
                default="batch",
                choices=("batch", "row"),
                doc="Whether the function takes Arrow record batches, or rows as dicts.",
            ),
            ConfigKey(
                "columns", doc="Output columns, `name type, …`; default: those of the input."
            ),
        ),
        _build_python_function,
    ),
)
