"""What moves when a connector of Kafka Connect goes on here, or back there. Pure.

A plan is made of what both sides have. It names each key without effect, each offset with its
equal, what must be done before, and why a connector cannot move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, Final

from penstock.cli.gateway_client import url_path
from penstock.cli.kafka_connect import STOPPED, RemoteConnector
from penstock.cli.kafka_connect_offsets import Offset, TranslatedOffset, is_same
from penstock.model.errors import Diagnostic, ErrorClass

CREATE: Final = "create"
OFFSETS: Final = "offsets"
START: Final = "start"

_DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "postgres-cdc": {
        "slot.name": "debezium",
        "publication.name": "dbz_publication",
        "output.format": "debezium",
    },
    "mysql-cdc": {"output.format": "debezium"},
}
"""Keys whose defaults there are others than ours: they name things in other systems, or say what
the consumers of the topics read.
"""

_RUNNING: Final = "RUNNING"
_MASK: Final = "*"
_SHORTEST_MASK: Final = 3
_MAX_NAMED: Final = 5
"""Keys that an error names; more are counted."""


@dataclass(frozen=True, slots=True)
class Target:
    """A connector as the cluster here has it, compared with that of Kafka Connect.

    Attributes:
        exists: Whether there is one of that name.
        state: Its target state.
        differences: Keys that differ.
        findings: Errors and warnings of the gateway about the configuration.
        offsets: Its offsets.
    """

    exists: bool = False
    state: str = ""
    differences: Sequence[Mapping[str, Any]] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    offsets: Sequence[Offset] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """What a user allows.

    Attributes:
        start: Let connectors run afterwards.
        without_offsets: Move connectors whose offsets cannot be translated, too: they begin anew.
        allow_repeats: Use offsets by which some rows come again.
    """

    start: bool = False
    without_offsets: bool = False
    allow_repeats: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """What is done for one connector.

    Attributes:
        name: Its name.
        class_there: Its class there.
        becomes: The connector that this class is here; empty: none.
        state_there: Its state there.
        config: Its configuration here.
        added: Keys of it that it has not there.
        steps: What is to be done, in order.
        offsets: Its offsets, translated.
        findings: Words about keys that have no effect.
        first: What must be done before the steps.
        refusals: Why nothing can be done.
    """

    name: str
    class_there: str
    becomes: str
    state_there: str
    config: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, str] = field(default_factory=dict)
    steps: Sequence[str] = ()
    offsets: Sequence[TranslatedOffset] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    first: str = ""
    refusals: Sequence[Diagnostic] = ()

    @property
    def translated(self) -> list[Offset]:
        """The offsets as the other side stores them."""
        return [one.after for one in self.offsets if one.after is not None]


def added_keys(becomes: str, config: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that a configuration of Kafka Connect needs here: its topics are Kafka's."""
    wanted = {"topics.backend": "kafka", **_DEFAULTS.get(becomes, {})}
    return {key: value for key, value in wanted.items() if key not in config}


def plan_import(
    there: RemoteConnector,
    becomes: str,
    added: Mapping[str, str],
    offsets: Sequence[TranslatedOffset],
    here: Target,
    options: Options,
    url: str,
) -> Move:
    """Return what is done so that a connector goes on here."""
    refusals = [*_config_refusals(there, here)]
    if not _runs(here) and not options.without_offsets:
        begins_anew = "--without-offsets moves it, and it begins anew."
        refusals += _offset_refusals(offsets, begins_anew, allow_repeats=options.allow_repeats)
    used = [] if options.without_offsets else offsets
    wanted = [one.after for one in used if one.after is not None]
    missing = bool(wanted) and not is_same(wanted, here.offsets)
    if missing and here.offsets and not _runs(here):
        refusals.append(_other_offsets(there.name))
    if here.state == _RUNNING and there.state == _RUNNING:
        refusals.append(_runs_twice())
    return Move(
        there.name,
        there.config.get("connector.class", ""),
        becomes,
        there.state,
        {**there.config, **added},
        added,
        [] if refusals else _import_steps(here, options, missing=missing),
        used,
        [one for one in here.findings if one["severity"] != "error"],
        "" if there.is_stopped or refusals else _stop_there(there.name, url),
        refusals,
    )


def plan_export(
    there: RemoteConnector,
    becomes: str,
    offsets: Sequence[TranslatedOffset],
    stored_there: Sequence[Offset],
    state_here: str,
    options: Options,
    url: str,
) -> Move:
    """Return what is done so that a connector goes on there, at the offsets that it has here."""
    keep_here = "Leave it here, or alter its offsets there by hand."
    refusals = list(_offset_refusals(offsets, keep_here, allow_repeats=options.allow_repeats))
    wanted = [one.after for one in offsets if one.after is not None]
    steps = [OFFSETS] if wanted and not _includes(stored_there, wanted) else []
    steps += [START] if options.start and there.state != _RUNNING else []
    first = [] if state_here == STOPPED else [f"penstock connector stop {quote(there.name)}"]
    if not there.is_stopped:
        first.append(_stop_there(there.name, url))
    return Move(
        there.name,
        there.config.get("connector.class", ""),
        becomes,
        there.state,
        there.config,
        steps=[] if refusals else steps,
        offsets=offsets,
        first="; ".join(first) if steps else "",
        refusals=refusals,
    )


def _includes(stored: Sequence[Offset], wanted: Sequence[Offset]) -> bool:
    """Return whether offsets are among those that are stored."""
    partitions = [one["partition"] for one in wanted]
    return is_same([one for one in stored if one["partition"] in partitions], wanted)


def _import_steps(here: Target, options: Options, *, missing: bool) -> list[str]:
    steps = [] if here.exists else [CREATE]
    if missing and not _runs(here):
        steps.append(OFFSETS)
    if options.start and not _runs(here):
        steps.append(START)
    return steps


def _runs(here: Target) -> bool:
    """Return whether a connector has been started here: its offsets are its own since."""
    return here.exists and here.state != STOPPED


def _config_refusals(there: RemoteConnector, here: Target) -> Iterator[Diagnostic]:
    for finding in here.findings:
        if finding["severity"] == "error":
            yield Diagnostic(
                finding["code"],
                finding["message"],
                ErrorClass.CONFIG,
                fix=finding.get("fix", ""),
                config_path=finding.get("config_path", ""),
            )
    for key, value in there.config.items():
        if len(value) >= _SHORTEST_MASK and not value.strip(_MASK):
            yield _refusal(
                "migration.masked",
                f"Kafka Connect shows `{key}` as {value[:_SHORTEST_MASK]}, not as it is",
                "Create the connector from a file that has the secret, or a reference to it.",
                key,
            )
    if here.exists and here.differences:
        keys = [one["key"] for one in here.differences]
        more = f" and {len(keys) - _MAX_NAMED} more" if len(keys) > _MAX_NAMED else ""
        yield _refusal(
            "migration.other_configuration",
            f"a connector of this name is here with other values of "
            f"{', '.join(keys[:_MAX_NAMED])}{more}; it is left as it is",
            f"Delete it (penstock connector delete {quote(there.name)}), or leave this one out.",
        )


def _offset_refusals(
    offsets: Sequence[TranslatedOffset], fix: str, *, allow_repeats: bool
) -> Iterator[Diagnostic]:
    for loss in dict.fromkeys(one.loss for one in offsets if one.loss):
        yield _refusal(
            "migration.offsets_lost",
            f"its offsets cannot be translated: {loss}",
            fix,
        )
    for repeats in dict.fromkeys(one.repeats for one in offsets if one.repeats):
        if not allow_repeats:
            yield _refusal(
                "migration.rows_again",
                f"its offsets are not exact: {repeats}",
                "--allow-repeats accepts that; no row is lost.",
            )


def _other_offsets(name: str) -> Diagnostic:
    return _refusal(
        "migration.other_offsets",
        "it is here already, stopped, and has other offsets; they are left as they are",
        f"To take those there: penstock offsets reset {quote(name)}, then import it again.",
    )


def _runs_twice() -> Diagnostic:
    return _refusal(
        "migration.runs_twice",
        "it was started here and runs there, too: its rows move twice",
        "Stop it there.",
    )


def _refusal(code: str, message: str, fix: str, path: str = "") -> Diagnostic:
    return Diagnostic(code, message, ErrorClass.CONFIG, fix=fix, config_path=path)


def _stop_there(name: str, url: str) -> str:
    return f"curl -X PUT {quote(url + url_path('connectors', name, 'stop'))}"


def not_stopped(move: Move) -> Diagnostic:
    """Return why a connector is left alone: what is to be done first was not."""
    return _refusal(
        "migration.not_stopped",
        "it is not stopped: both sides would move its rows, and its offsets are not the last ones",
        f"Run: {move.first}",
    )
