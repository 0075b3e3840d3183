"""Lines of text as rows of the named groups of a pattern."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from penstock_builtin.file_source.chunk import Chunk, excerpt, spot
from penstock_builtin.file_source.declared import cast_texts
from penstock_builtin.file_source.text import BadRows, Decoded, clean, split_lines
from penstock_connector import ConfigError, DataError


class MatchDecoder:
    """Makes a row of every line that the pattern matches, from its beginning to its end. A group
    that has no part in a match is an empty text, and no value of any other type.
    """

    def __init__(
        self,
        pattern: str,
        types: Mapping[str, pa.DataType],
        invalid_utf8: str,
        invalid_rows: str,
    ) -> None:
        self._pattern, self._types = f"^(?:{pattern})$", types
        self._invalid_utf8 = invalid_utf8
        self._tolerant = invalid_rows == "dead-letter"
        self._names = self._groups(pattern)
        unknown = sorted(set(types) - set(self._names))
        if unknown:
            raise _wrong(
                "types", f"the pattern has no group {unknown[0]!r}: {', '.join(self._names)}"
            )

    def decode(self, chunk: Chunk, dataset: str) -> Decoded:
        """Return the rows of a chunk."""
        cleaned = clean(chunk, self._invalid_utf8)
        lines = split_lines(cleaned.text, chunk)
        found = pc.extract_regex(lines, self._pattern)
        wrong = dict.fromkeys(_indices(pc.is_null(found)), "does not match `text.regex`")
        columns = []
        for name in self._names:
            texts = pc.struct_field(found, name)
            values, misfits = self._typed(name, texts)
            columns.append(values)
            wrong |= {at: f"{name!r} is no {values.type}" for at in misfits if at not in wrong}
        rows = pa.record_batch(columns, names=self._names)
        if not wrong:
            return Decoded(rows, cleaned.bad)

        def where(at: int) -> str:
            return spot(chunk, cleaned.line_of(at))

        rows, bad = self._without(rows, lines, wrong, where)
        return Decoded(rows, cleaned.bad + bad)

    def _typed(self, name: str, texts: pa.Array) -> tuple[pa.Array, list[int]]:
        kind = self._types.get(name)
        return (texts, []) if kind is None else cast_texts(texts, kind)

    def _without(
        self,
        rows: pa.RecordBatch,
        lines: pa.Array,
        wrong: Mapping[int, str],
        where: Callable[[int], str],
    ) -> tuple[pa.RecordBatch, BadRows]:
        bad: BadRows = []
        for at in sorted(wrong):
            raw = lines[at].as_py().encode()
            error = DataError(
                "file.no_match",
                f"{where(at)}: {wrong[at]}: {excerpt(raw)}",
                fix="Correct `text.regex`, or set `invalid.rows` to `dead-letter`.",
                config_path="text.regex",
            )
            if not self._tolerant:
                raise error
            bad.append((raw + b"\n", error))
        kept = [at not in wrong for at in range(len(lines))]
        return rows.filter(pa.array(kept, pa.bool_())), bad

    def _groups(self, pattern: str) -> list[str]:
        """Return the names of the groups; Arrow's own engine says whether it takes the pattern."""
        try:
            found = pc.extract_regex(pa.array([""]), self._pattern).type
        except pa.ArrowInvalid as error:
            raise _wrong("text.regex", f"{pattern!r}: {str(error).splitlines()[0]}") from error
        if not found.num_fields:
            raise _wrong("text.regex", f"{pattern!r} has no named group")
        return [field.name for field in found]


def _indices(mask: pa.Array) -> list[int]:
    return list(pc.indices_nonzero(mask).to_pylist())


def _wrong(path: str, why: str) -> ConfigError:
    return ConfigError(
        "config.invalid_value",
        why,
        fix=r"For instance `(?P<host>\S+) (?P<status>\d+)`; every group needs a name.",
        config_path=path,
    )
