"""Rows that the source of a connector could not read, parsed by that source once more.

What is parsed is the bytes of a dead letter, or the text that a user put in their place, with the
values that the user set. The source is configured as its connector is now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.model.connector import Connector
from penstock.model.dead_letter_queue import DeadLetterId, RowEdits
from penstock.model.errors import ConfigError, Diagnostic, PenstockError
from penstock.model.stream import StreamSchema
from penstock.plugin.host import PluginHost
from penstock.plugin.responses import ParsedRow, RawRow
from penstock.spark.connector_io.frames import Decoder
from penstock.spark.connector_io.json_lines import format_rows
from penstock.telemetry.redaction import redact_diagnostic
from penstock.worker.config.resolved_config import ResolvedConfig, WorkerContext, acquire_plugin

MAX_ROWS: Final = 500
MAX_BYTES: Final = 8 << 20
"""Rows of one call, and bytes after which it gets no more."""

_SOURCE: Final = "source"


@dataclass(frozen=True, slots=True)
class RawLetter:
    """A dead letter with the bytes of a row, and the changes of the user."""

    id: DeadLetterId
    row: RawRow

    @classmethod
    def of(cls, letter: DeadLetterId, fields: Mapping[str, Any], edits: RowEdits) -> RawLetter:
        """Return the dead letter with these columns, edited."""
        text, raw = edits.text_for(letter), fields["raw"] or b""
        return cls(
            letter,
            RawRow(
                fields["partition"] or "",
                fields["dataset"] or "",
                raw if text is None else text.encode(),
                edits.for_letter(letter),
            ),
        )


@dataclass(frozen=True, slots=True)
class ParsedLetter:
    """The row of a dead letter as a JSON line, and its schema, whose id means nothing; or why its
    bytes are not a row.
    """

    row: str = ""
    schema: StreamSchema | None = None
    reason: Diagnostic | None = None


@dataclass(frozen=True, slots=True)
class RawRowParser:
    """Parses rows with the source of one connector."""

    host: PluginHost
    resolved: ResolvedConfig = field(repr=False)

    async def parse(self, letters: Sequence[RawLetter]) -> dict[DeadLetterId, ParsedLetter]:
        """Return what became of each dead letter. Where the source cannot parse single rows, that
        is the reason of all of them.

        Raises:
            PenstockError: the source cannot be started, or broke the protocol.
        """
        if not letters:
            return {}
        if not self.resolved.reads_plugin:
            return _all_unparsed(letters, _no_source(self.resolved.connector.name))
        process, target = await acquire_plugin(self.host, self.resolved, _SOURCE)
        found: dict[DeadLetterId, ParsedLetter] = {}
        try:
            for part in split_calls(letters):
                rows = await process.parse_rows(target, [letter.row for letter in part])
                for letter, row in zip(part, rows, strict=True):
                    found[letter.id] = self._parsed(row)
        except PenstockError as error:
            if error.code != "plugin.unimplemented":
                raise
            return _all_unparsed(letters, _cannot_parse(process.spec.name))
        return found

    def _parsed(self, row: ParsedRow) -> ParsedLetter:
        if row.schema is None or row.frame is None:
            secrets = self.resolved.secret_texts
            return ParsedLetter(reason=row.reason and redact_diagnostic(row.reason, secrets))
        schema = row.schema.arrow.serialize().to_pybytes()
        decoder = Decoder(schema, schema_id=row.frame.schema_id, encoding=row.frame.encoding)
        batch = decoder.decode(row.frame)
        (text,) = format_rows(batch)
        return ParsedLetter(text, replace(row.schema, arrow=batch.schema))


async def open_parser(context: WorkerContext, connector: Connector) -> RawRowParser:
    """Return the parser of a connector's rows.

    Raises:
        PenstockError: its configuration has errors now.
    """
    return RawRowParser(context.host, await context.resolve_valid(connector))


def split_calls(letters: Sequence[RawLetter]) -> Iterator[list[RawLetter]]:
    """Yield parts of dead letters, each for one call of the source."""
    part, size = list[RawLetter](), 0
    for letter in letters:
        part.append(letter)
        size += len(letter.row.raw)
        if len(part) == MAX_ROWS or size > MAX_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _all_unparsed(
    letters: Sequence[RawLetter], error: ConfigError
) -> dict[DeadLetterId, ParsedLetter]:
    return {letter.id: ParsedLetter(reason=error.diagnostic) for letter in letters}


def _cannot_parse(source: str) -> ConfigError:
    return ConfigError(
        "letters.no_parser",
        f"the source {source} could not read the row, and cannot read single rows again",
        fix="Correct the row where it comes from, so that the source reads it as a new one. "
        "`penstock dlq export` writes its bytes.",
        config_path="replay.letters",
    )


def _no_source(connector: str) -> ConfigError:
    return ConfigError(
        "letters.no_parser",
        f"{connector} has no source of its own that could read the bytes of a row",
        fix="Correct the row where it comes from. `penstock dlq export` writes its bytes.",
        config_path="replay.letters",
    )
