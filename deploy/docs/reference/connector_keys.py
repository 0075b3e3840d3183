"""The page of connectors: the keys that every connector has, then those of each that ships."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock.connector_config.keys import KAFKA_CONNECT_KEYS, KEYS
from reference.key_table_script import key_table, load_script
from reference.markdown import code, codes, page, plain, table
from reference.markdown import key_table as framework_key_table

_KINDS: Final = {pb.KIND_SOURCE: "source", pb.KIND_SINK: "sink"}

_MODES: Final = {
    pb.COMMIT_MODE_HOST: "at least once (`at-least-once`)",
    pb.COMMIT_MODE_IDEMPOTENT: "repeated rows with keys are stored once (`idempotent`)",
    pb.COMMIT_MODE_TWO_PHASE: "exactly once, in two phases (`exactly-once`)",
    pb.COMMIT_MODE_SINK: "exactly once, the sink keeps the position (`exactly-once-sink`)",
}
"""Commit modes of a sink, with the value of `delivery` that requires them."""


def write_page() -> str:
    """Return the page."""
    specs = shipped_connectors()
    return page(
        "Connectors",
        "The keys of a connector are those that every connector has, and its own. Durations are "
        "written `5s`, `100ms`, `1.5h`, a bare number is in milliseconds; sizes are written "
        "`64KiB`, `1MiB`, `4096`; lists are separated by commas. A key that no part takes is an "
        "error with the nearest names (`config.unknown_key`).",
        "## The connectors that ship",
        table(
            ("connector", "kind", "what it moves", "other names"),
            (
                (
                    f"[`{spec.name}`](#{spec.name})",
                    _KINDS[spec.kind],
                    plain(spec.title),
                    codes(spec.aliases),
                )
                for spec in specs
            ),
        ),
        "## Keys of every connector",
        framework_key_table(KEYS),
        "### Keys of other products without effect",
        "They load, and each that is set gets a warning with the reason.",
        table(
            ("key, or how it begins", "why it does nothing"),
            ((code(key), plain(why)) for key, (why, _) in KAFKA_CONNECT_KEYS.items()),
        ),
        *_sections(specs),
    )


def shipped_connectors() -> list[pb.ConnectorSpec]:
    """Return what the connectors that ship describe."""
    script = load_script()
    return [spec for name, spec in script.SPECS.items() if name not in script.CONVERTERS]


def _sections(specs: Iterable[pb.ConnectorSpec]) -> Iterator[str]:
    for spec in specs:
        yield f"## {spec.name}"
        yield plain(spec.description) if spec.description else plain(f"{spec.title}.")
        yield "\n".join(f"- {line}" for line in _abilities(spec))
        yield key_table(spec.name)


def _abilities(spec: pb.ConnectorSpec) -> Iterator[str]:
    if spec.kind == pb.KIND_SOURCE:
        yield (
            "Replayable: it reads the same rows again from a stored offset."
            if spec.source.replayable
            else "Not replayable: it is refused with `exactly.once.support=required`."
        )
        if spec.source.bounded:
            yield "It can end: a run is completed when everything is read."
        if spec.source.alter_offsets:
            yield "Its offsets can be altered while it is stopped."
    else:
        yield "Delivery: " + "; ".join(_MODES[mode] for mode in spec.sink.commit_modes) + "."
    if spec.enforces_reach:
        yield "It keeps to the folders and hosts that the worker allows (`reach`)."
