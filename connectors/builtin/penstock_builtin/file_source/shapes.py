"""How the schema of a dataset is found and how it grows. Pure.

The first block of rows decides; later blocks may add columns, and may widen a whole number to a
fraction. What fits neither is told, never bent.
"""

from __future__ import annotations

import pyarrow as pa

from penstock_connector import DataError

_NOTHING = pa.schema([])


class Shapes:
    """The schemas so far, by dataset."""

    def __init__(self) -> None:
        self._known: dict[str, pa.Schema] = {}

    def of(self, dataset: str) -> pa.Schema | None:
        """Return a dataset's schema; None before its first rows."""
        return self._known.get(dataset)

    def grow(self, dataset: str, seen: pa.Schema, path: str) -> pa.Schema:
        """Take rows of a schema into account, and return the schema that holds all of them.

        Raises:
            DataError: `file.schema_incompatible`.
        """
        grown = self.joined(dataset, seen, path)
        self.keep(dataset, grown)
        return grown

    def joined(self, dataset: str, seen: pa.Schema, path: str) -> pa.Schema:
        """Return the schema that holds all rows of a dataset and these.

        Raises:
            DataError: `file.schema_incompatible`.
        """
        known = self._known.get(dataset)
        if known is None:
            return seen
        try:
            return pa.unify_schemas([known, seen], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise incompatible(path, str(error)) from error

    def keep(self, dataset: str, schema: pa.Schema) -> None:
        """Take a schema for that of a dataset from now on."""
        self._known[dataset] = schema


def incompatible(path: str, why: str) -> DataError:
    """Return the error for rows that fit no schema together with the ones before."""
    return DataError(
        "file.schema_incompatible",
        f"{path}: {why.splitlines()[0]}",
        fix="Give the files whose columns differ a dataset of their own (`dataset=${file}`); "
        "in CSV, `csv.columns=name:string` fixes a type.",
    )


def settled(schema: pa.Schema, *, times: bool, declared: pa.Schema = _NOTHING) -> pa.Schema:
    """Return an inferred schema with types that every reader knows.

    A column that had no value yet is left out: its type is not known. Only when no other column is
    there texts stand for what is not known, because rows must not vanish.

    Args:
        schema: As it was inferred.
        times: Texts that look like times are times (CSV); else they stay texts (JSON).
        declared: Columns whose types are not inferred.
    """
    fields = [
        (field.name, declared.field(field.name).type)
        if field.name in declared.names
        else (field.name, _settled(field.type, times=times))
        for field in schema
    ]
    kept = [(name, kind) for name, kind in fields if kind is not None]
    if not kept:
        filled = [(field.name, _filled(field.type)) for field in schema]
        kept = [(name, kind) for name, kind in filled if kind is not None]
    return pa.schema(kept)


def _filled(kind: pa.DataType) -> pa.DataType | None:
    """Return a type in which texts stand for what is not known; None for objects without a
    field.
    """
    if pa.types.is_list(kind):
        inner = _filled(kind.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(kind):
        children = [(child.name, _filled(child.type)) for child in kind]
        fields = [(name, child) for name, child in children if child is not None]
        return pa.struct(fields) if fields else None
    return pa.string()


def _settled(kind: pa.DataType, *, times: bool) -> pa.DataType | None:
    if pa.types.is_null(kind):
        return None
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if times else pa.string()
    if pa.types.is_time(kind) or (pa.types.is_date(kind) and not times):
        return pa.string()
    if pa.types.is_list(kind):
        inner = _settled(kind.value_type, times=times)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(kind):
        children = [(child.name, _settled(child.type, times=times)) for child in kind]
        kept = [(name, child) for name, child in children if child is not None]
        return pa.struct(kept) if kept else None
    return kind
