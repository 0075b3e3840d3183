"""`penstock import kafka-connect URL`, `penstock export kafka-connect URL`: a plan, then `--apply`.

`import` takes connectors over with their offsets; `export` gives offsets back, so that Kafka
Connect goes on with connectors that it still has.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock.cli.errors import (
    EXIT_USAGE,
    print_diagnostic,
    with_connector_name,
)
from penstock.cli.gateway_client import GatewayClient, url_path
from penstock.cli.gateway_options import NounParser
from penstock.cli.kafka_connect import (
    CA_VARIABLE,
    CREDENTIAL_VARIABLE,
    STOPPED,
    KafkaConnectClient,
    RemoteConnector,
)
from penstock.cli.kafka_connect_offsets import (
    Offset,
    TranslatedOffset,
    export_offsets,
    import_offsets,
    match_tables,
)
from penstock.cli.migration_plan import (
    CREATE,
    OFFSETS,
    START,
    Move,
    Options,
    Target,
    added_keys,
    not_stopped,
    plan_export,
    plan_import,
)
from penstock.cli.output import print_table, print_value
from penstock.cli.progress import status_line
from penstock.model.config_def import split_errors
from penstock.model.datasets import MAX_DATASETS
from penstock.model.errors import ConfigError, Diagnostic, PenstockError, nearest_names

_NOUN: Final = "kafka-connect"
_URL: Final = "address of Kafka Connect's REST API: http://HOST:PORT"

_MAX_OFFSETS: Final = 20
"""Offsets of a connector that a table shows; JSON has all."""

_CONVERTERS: Final = ("key.converter", "value.converter")
_WORD: Final = {CREATE: "create it, stopped", OFFSETS: "store offsets", START: "start it"}


def describe(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the verb."""
    run, summary = _VERBS[name]
    verb = NounParser(parser).add_verb(_NOUN, summary, run, url=_URL)
    verb.add_argument(
        "--connector",
        action="append",
        default=[],
        metavar="NAME",
        help="only this one; may be repeated (default: all)",
    )
    verb.add_argument("--apply", action="store_true", help="carry out the plan")
    verb.add_argument("--start", action="store_true", help="let the connectors run afterwards")
    verb.add_argument(
        "--allow-repeats", action="store_true", help="also with offsets by which rows come again"
    )
    if name == "import":
        verb.add_argument(
            "--without-offsets",
            action="store_true",
            help="leave offsets behind: the connectors begin anew",
        )
    verb.add_argument(
        "--connect-ca",
        default=os.environ.get(CA_VARIABLE, ""),
        help=f"PEM file of the authority of Kafka Connect's certificate (default: {CA_VARIABLE}); "
        f"{CREDENTIAL_VARIABLE} holds your NAME:PASSWORD there, or your token",
    )


def _import(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    options = Options(arguments.start, arguments.without_offsets, arguments.allow_repeats)
    with _connect(arguments) as connect:
        version, kafka = connect.server_info()
        chosen = _choose(connect.list_connectors(), arguments.connector)
        known: dict[str, str] = {}
        moves = []
        for there in chosen:
            with status_line(f"planning {there.name}"):
                moves.append(_plan_import(gateway, connect, there, options, known))
        brokers = (
            f"Kafka Connect {version} uses the Kafka cluster {kafka}: `bootstrap.servers` of the "
            "workers here must name its brokers."
        )
        notes = [brokers, *_converter_notes(chosen)]
        return _finish(arguments, moves, notes, lambda move, step: _take(gateway, move, step))


def _export(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    options = Options(arguments.start, allow_repeats=arguments.allow_repeats)
    with _connect(arguments) as connect:
        connect.server_info()
        chosen = _choose(connect.list_connectors(), arguments.connector)
        moves = []
        for there in chosen:
            with status_line(f"planning {there.name}"):
                move = _plan_export(gateway, connect, there, options)
            if move is not None:
                moves.append(move)
        missing = set(arguments.connector) - {move.name for move in moves}
        notes = [f"Here is no connector {name}." for name in sorted(missing)]
        return _finish(arguments, moves, notes, lambda move, step: _give(connect, move, step))


_VERBS: Final = {
    "import": (_import, "take connectors of Kafka Connect over, with their offsets"),
    "export": (_export, "give offsets back to connectors that Kafka Connect still has"),
}


def _connect(arguments: argparse.Namespace) -> KafkaConnectClient:
    credential = os.environ.get(CREDENTIAL_VARIABLE, "")
    return KafkaConnectClient(arguments.url, credential, arguments.connect_ca)


def _choose(
    found: Mapping[str, RemoteConnector], names: Sequence[str]
) -> Sequence[RemoteConnector]:
    for name in names:
        if name not in found:
            near = nearest_names(name, found)
            raise ConfigError(
                "connect.not_found",
                f"Kafka Connect has no connector {name!r}",
                fix=f"Did you mean {near[0]}?" if near else "Leave out --connector for all.",
                config_path="--connector",
            )
    return [one for name, one in found.items() if not names or name in names]


def _plan_import(
    gateway: GatewayClient,
    connect: KafkaConnectClient,
    there: RemoteConnector,
    options: Options,
    known: dict[str, str],
) -> Move:
    class_there = there.config.get("connector.class", "")
    if class_there not in known:
        known[class_there] = _becomes(gateway, class_there)
    becomes = known[class_there]
    added = added_keys(becomes, there.config)
    config = {**there.config, **added}
    body = {"name": there.name, "config": config}
    comparison = gateway.send("POST", "/v1/connectors/compare", body)
    exists = bool(comparison["revision"])
    here = Target(
        exists,
        comparison["target_state"],
        comparison["differences"],
        comparison["findings"],
        _offsets_here(gateway, there.name) if exists else (),
    )
    unknown: list[Diagnostic] = []
    translated: Sequence[TranslatedOffset] = ()
    if not options.without_offsets:
        try:
            stored = connect.list_offsets(there.name)
            translated = import_offsets(becomes, there.kind, config, stored)
            if becomes == "jdbc-source" and any(one.after for one in translated):
                translated = match_tables(translated, _tables_here(gateway, body))
        except ConfigError as error:
            unknown = [one.diagnostic for one in split_errors(error)]
    move = plan_import(there, becomes, added, translated, here, options, connect.url)
    return replace(move, steps=(), refusals=[*move.refusals, *unknown]) if unknown else move


def _plan_export(
    gateway: GatewayClient, connect: KafkaConnectClient, there: RemoteConnector, options: Options
) -> Move | None:
    """Return the plan; None when there is no such connector here."""
    try:
        stored = gateway.get(url_path("v1", "connectors", there.name))
    except PenstockError as error:
        if error.code != "config.not_found":
            raise
        return None
    becomes = _becomes(gateway, stored["config"].get("connector.class", ""))
    offsets = _offsets_here(gateway, there.name)
    before = connect.list_offsets(there.name)
    translated = export_offsets(becomes, there.kind, there.config, offsets, before)
    state = stored["target_state"]
    return plan_export(there, becomes, translated, before, state, options, connect.url)


def _becomes(gateway: GatewayClient, class_there: str) -> str:
    """Return the connector that a class is here; empty for none."""
    path = url_path("connector-plugins", class_there, "config", "validate")
    try:
        return str(gateway.send("PUT", path, {"connector.class": class_there})["name"])
    except PenstockError as error:
        if not isinstance(error, ConfigError):
            raise
        return ""  # the comparison has the reason


def _offsets_here(gateway: GatewayClient, name: str) -> Sequence[Offset]:
    return list(gateway.get(url_path("connectors", name, "offsets"))["offsets"])


def _tables_here(gateway: GatewayClient, body: Mapping[str, Any]) -> set[str]:
    """Return the tables that a configuration reads; a worker reads them from the database."""
    wanted = {**body, "limit": MAX_DATASETS}
    lines = gateway.stream("POST", "/v1/connectors/datasets", wanted)
    return {line["name"] for line in lines if line.get("selected")}


def _converter_notes(chosen: Iterable[RemoteConnector]) -> Iterable[str]:
    names = [one.name for one in chosen if not all(one.config.get(key) for key in _CONVERTERS)]
    if names:
        yield (
            f"No converters of their own: {', '.join(names)}. The file of the workers here must "
            f"have the same {' and '.join(_CONVERTERS)}, with their keys, as the workers there."
        )


def _finish(
    arguments: argparse.Namespace,
    moves: Sequence[Move],
    notes: Sequence[str],
    act: Callable[[Move, str], None],
) -> int:
    """Print the plan, or do it and print what was done."""
    results: dict[str, str] = {}
    refused = [(move.name, one) for move in moves for one in move.refusals]
    try:
        for move in moves if arguments.apply else ():
            if move.first and move.steps:
                refused.append((move.name, not_stopped(move)))
                results[move.name] = "refused"
                continue
            results[move.name] = "refused" if move.refusals else "failed"
            for step in move.steps:
                with status_line(f"{_WORD[step]}: {move.name}"):
                    act(move, step)
            if not move.refusals:
                results[move.name] = "done" if move.steps else "nothing to do"
    except PenstockError as error:
        raise with_connector_name(error, move.name) from error
    finally:  # the user sees what was done, also after a failure
        _print_moves(arguments.output, moves, notes, results if arguments.apply else None)
    for name, one in refused:
        print_diagnostic(replace(one, message=f"{name}: {one.message}"))
    return EXIT_USAGE if refused else 0


def _take(gateway: GatewayClient, move: Move, step: str) -> None:
    if step == CREATE:
        body = {"name": move.name, "config": dict(move.config), "initial_state": STOPPED}
        gateway.send("POST", "/connectors", body)
    elif step == OFFSETS:
        path = url_path("connectors", move.name, "offsets")
        gateway.send("PATCH", path, {"offsets": move.translated})
    else:
        gateway.set_state(move.name, "RUNNING")


def _give(connect: KafkaConnectClient, move: Move, step: str) -> None:
    if step == OFFSETS:
        connect.alter_offsets(move.name, move.translated)
    else:
        connect.resume(move.name)


def _print_moves(
    output: str,
    moves: Sequence[Move],
    notes: Sequence[str],
    results: Mapping[str, str] | None,
) -> None:
    values = [_value(move, results) for move in moves]
    if output != "table":
        print_value(output, {"connectors": values, "notes": list(notes)})
        return
    tables = (
        [_row(move, results) for move in moves],
        [row for move in moves for row in _key_rows(move)],
        [row for move in moves for row in _offset_rows(move)],
    )
    for rows in filter(None, tables):
        print_table(rows)
        print()
    if not moves:
        print("there are no connectors", file=sys.stderr)
    for note in notes:
        print(f"note: {note}")


def _value(move: Move, results: Mapping[str, str] | None) -> dict[str, Any]:
    value = {
        "connector": move.name,
        "class": move.class_there,
        "becomes": move.becomes or None,
        "state_there": move.state_there,
        "steps": list(move.steps),
        "first": move.first or None,
        "added": dict(move.added),
        "findings": list(move.findings),
        "offsets": [
            {
                "before": one.before,
                "after": one.after,
                "note": one.remark or None,
            }
            for one in move.offsets
        ],
        "refused": [
            {"code": one.code, "message": one.message, "fix": one.fix} for one in move.refusals
        ],
    }
    return value if results is None else value | {"result": results.get(move.name, "not tried")}


def _row(move: Move, results: Mapping[str, str] | None) -> dict[str, Any]:
    steps = [_WORD[step] for step in move.steps]
    what = "cannot move" if move.refusals else steps or "nothing"
    row = {
        "connector": move.name,
        "class there": move.class_there,
        "here": move.becomes or None,
        "state there": move.state_there,
        "what": what,
        "first": move.first or None,
    }
    return row if results is None else row | {"result": results.get(move.name, "not tried")}


def _key_rows(move: Move) -> Iterable[dict[str, str]]:
    for key, value in move.added.items():
        text = f"added: {value}"
        yield {"connector": move.name, "key": key, "what becomes of it": text}
    for finding in move.findings:
        key = finding.get("config_path") or ""
        yield {"connector": move.name, "key": key, "what becomes of it": finding["message"]}


def _offset_rows(move: Move) -> Iterable[dict[str, Any]]:
    for one in move.offsets[:_MAX_OFFSETS]:
        yield {
            "connector": move.name,
            "offset": [one.before["partition"], one.before["offset"]],
            "becomes": [one.after["partition"], one.after["offset"]] if one.after else None,
            "note": one.remark or None,
        }
    if len(move.offsets) > _MAX_OFFSETS:
        more = f"and {len(move.offsets) - _MAX_OFFSETS} more: -o json has all"
        yield {"connector": move.name, "offset": more}
