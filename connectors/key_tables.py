"""Writes the tables of keys in the READMEs of the connectors that ship, from what they describe,
and those of other products' keys in the pages on moving from them.

    python connectors/key_tables.py [--check]

A table stands between `<!-- keys of NAME -->` and `<!-- end of keys -->`, one of another product's
keys between `<!-- compatibility keys: TABLE -->` and `<!-- end of compatibility keys -->`. With
`--check` nothing is written: a table that is not fresh is named, and the exit code is 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import penstock_kafka
import penstock_rocketmq

import penstock_amqp
import penstock_analytics
import penstock_builtin
import penstock_databases
import penstock_messaging
import penstock_metrics
import penstock_net
import penstock_search
from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock.connector_config.keys import KAFKA_CONNECT_KEYS
from penstock.standalone import connect_keys
from penstock_connector import CompatibilityKey
from penstock_connector._config import WithCompatibilityKeys
from penstock_connector._connectors import spec_of
from penstock_converters.avro.converter import AVRO_KEYS
from penstock_converters.cloudevents_converter import CLOUDEVENTS_KEYS
from penstock_converters.config_values import ConverterKey
from penstock_converters.json.schema_converter import JSON_SCHEMA_KEYS
from penstock_converters.protobuf.converter import PROTOBUF_KEYS
from penstock_converters.schema_registry.apicurio_keys import APICURIO_KEYS
from penstock_converters.schema_registry.keys import REGISTRY_KEYS, URL
from penstock_databases.cdc import debezium_keys
from penstock_databases.mysql_cdc.config import MysqlCdcConfig
from penstock_databases.postgres_cdc.config import PostgresCdcConfig

HERE: Final = Path(__file__).parent
PAGES: Final = HERE.parent / "deploy" / "docs" / "pages" / "migrate"


def _spec_of_keys(name: str, keys: Sequence[ConverterKey]) -> pb.ConnectorSpec:
    """Return keys of converters as those of a connector."""
    spec = pb.ConnectorSpec(name=name)
    for key in keys:
        default = "" if key.default is None else str(key.default)
        spec.config_keys.add(
            name=key.name,
            required=key.name == URL,
            default_value=default.lower() if isinstance(key.default, bool) else default,
            documentation=key.doc,
            choices=key.choices,
        )
    return spec


CONVERTERS: Final = {
    "converters with a registry": REGISTRY_KEYS,
    "the converter of CloudEvents": CLOUDEVENTS_KEYS,
    "the Avro converter": AVRO_KEYS,
    "Apicurio's Avro converter": APICURIO_KEYS,
    "the converter of JSON Schema": JSON_SCHEMA_KEYS,
    "the Protobuf converter": PROTOBUF_KEYS,
}
SPECS: Final[Mapping[str, pb.ConnectorSpec]] = {
    **{
        kind.name: spec_of(kind)
        for package in (
            penstock_builtin,
            penstock_databases,
            penstock_kafka,
            penstock_net,
            penstock_amqp,
            penstock_metrics,
            penstock_analytics,
            penstock_messaging,
            penstock_search,
            penstock_rocketmq,
        )
        for kind in package.CONNECTORS
    },
    **{name: _spec_of_keys(name, keys) for name, keys in CONVERTERS.items()},
}
TABLE: Final = re.compile(r"<!-- keys of (.+?) -->\n.*?<!-- end of keys -->\n", re.DOTALL)
HEAD: Final = "| key | default | meaning |\n|---|---|---|\n"


def key_table(spec: pb.ConnectorSpec) -> str:
    """Return the table of a connector's keys, between its marks; those of high importance first."""
    keys = sorted(spec.config_keys, key=lambda key: key.importance != "high")
    rows = "".join(map(_row, keys))
    return f"<!-- keys of {spec.name} -->\n{HEAD}{rows}<!-- end of keys -->\n"


def _row(key: pb.ConfigKey) -> str:
    default = "required" if key.required else _code(key.default_value)
    text = key.documentation
    choices = [_code(choice) for choice in key.choices if choice]
    if any(choice not in text for choice in choices):
        text += f" One of {', '.join(choices)}."
    return f"| `{key.name}` | {default} | {text.replace('|', '&#124;')} |\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


CHANGE_SOURCES: Final[Mapping[str, type[WithCompatibilityKeys]]] = {
    "mysql-cdc": MysqlCdcConfig,
    "postgres-cdc": PostgresCdcConfig,
}
ONLY_HERE: Final = frozenset({
    "connection.url", "connection.user", "connection.password", "connection.attempts",
    "connection.backoff.ms", "include.before", "max.batch.bytes", "offset.lost", "output.format",
    "replica.identity.missing", "slot.drop.on.delete", "snapshot.parallelism",
    "table.poll.interval.ms", "toast.missing", "zero.dates",
})  # fmt: skip
"""Keys of the two sources that Debezium does not have."""

COMPATIBILITY_TABLE: Final = re.compile(
    r"<!-- compatibility keys: (.+?) -->\n.*?<!-- end of compatibility keys -->\n", re.DOTALL
)
_ANY_VALUE: Final = "…"
"""Stands for a value that is none of those which say what is so anyway."""


def keys_in_force(name: str) -> list[pb.ConfigKey]:
    """Return the keys of a change source that are Debezium's, too."""
    return [key for key in SPECS[name].config_keys if key.name not in ONLY_HERE]


def _force_table(name: str) -> str:
    return HEAD + "".join(map(_row, keys_in_force(name)))


def _debezium_names() -> list[str]:
    """Return all names of Debezium that have an answer; `prefix.*` for those that begin so."""
    starts = {*debezium_keys.WITHOUT_EFFECT_BELOW, *debezium_keys.REFUSED_BELOW}
    exact = {
        *debezium_keys.WITHOUT_EFFECT,
        *debezium_keys.REFUSED,
        *debezium_keys.AS_HERE,
        *(key.name for name in CHANGE_SOURCES for key in keys_in_force(name)),
    }
    return sorted(exact | set(map(_pattern, starts)))


@dataclass(frozen=True, slots=True)
class _Answer:
    """What becomes of a key of Debezium in a source that does not have it; `accepted` are the
    values that load without a word, because they say what is so anyway.
    """

    key: CompatibilityKey
    accepted: tuple[str, ...]


def _answers(name: str) -> dict[str, _Answer]:
    """Return the answers by source; none of a source that has the key itself."""
    return {
        source: _Answer(found, _accepted_values(source, name))
        for source in CHANGE_SOURCES
        if name not in {key.name for key in SPECS[source].config_keys}
        and (found := _ask(source, name, _ANY_VALUE)) is not None
    }


def _ask(source: str, name: str, value: str) -> CompatibilityKey | None:
    return CHANGE_SOURCES[source].compatibility_key(name, value)


def _accepted_values(source: str, name: str) -> tuple[str, ...]:
    values = sorted(debezium_keys.AS_HERE.get(name, ()))
    return tuple(value for value in values if _ask(source, name, value) == CompatibilityKey())


def _answer_table(head: str, row: Callable[[_Answer], str], *, refused: bool) -> str:
    """Return the rows of the keys that are refused, or of those that have no effect."""
    rows = []
    for name in _debezium_names():
        answers = {s: one for s, one in _answers(name).items() if one.key.refused is refused}
        same = len(answers) == len(CHANGE_SOURCES) and len(set(answers.values())) == 1
        shown = {"both": next(iter(answers.values()))} if same else answers
        rows += [f"| `{name}` | {_source(of)} | {row(one)} |\n" for of, one in shown.items()]
    return head + "".join(rows)


def _source(name: str) -> str:
    return name if name == "both" else f"`{name}`"


def _without_effect(answer: _Answer) -> str:
    accepted = ", ".join(map(_code, answer.accepted))
    return answer.key.why + (f"; no warning with {accepted}" if accepted else "")


def _refused(answer: _Answer) -> str:
    accepted = ", ".join(map(_code, answer.accepted))
    return f"{answer.key.why} | {answer.key.fix} | {accepted}"


_UNUSED_HEAD: Final = "| key | why it has no effect |\n|---|---|\n"
_OWN_WORKER_KEYS: Final = ("namesrv.addr", "rocketmq.")
"""Prefixes of keys of a worker's file that no other product has."""


def _unused_worker_keys(*, of_rocketmq: bool) -> str:
    """Return the table of another product's keys in a worker's file; RocketMQ's have no dots."""
    return _unused_table(
        {
            start: why
            for start, why in connect_keys.UNUSED.items()
            if start not in _OWN_WORKER_KEYS and (start != start.lower()) is of_rocketmq
        }
    )


def _unused_connector_keys() -> str:
    return _unused_table({start: why for start, (why, _) in KAFKA_CONNECT_KEYS.items()})


def _unused_table(reasons: Mapping[str, str]) -> str:
    rows = (f"| `{_pattern(start)}` | {why} |\n" for start, why in sorted(reasons.items()))
    return _UNUSED_HEAD + "".join(rows)


def _pattern(start: str) -> str:
    """Return how a name, or a prefix that ends with a dot, stands in a table."""
    return f"{start}*" if start.endswith(".") else start


COMPATIBILITY_TABLES: Final[Mapping[str, Callable[[], str]]] = {
    **{f"Debezium's in force, {name}": partial(_force_table, name) for name in CHANGE_SOURCES},
    "Debezium's without effect": partial(
        _answer_table, "| key | of | why |\n|---|---|---|\n", _without_effect, refused=False
    ),
    "Debezium's refused": partial(
        _answer_table,
        "| key | of | why | instead | accepted value |\n|---|---|---|---|---|\n",
        _refused,
        refused=True,
    ),
    "Kafka Connect's workers": partial(_unused_worker_keys, of_rocketmq=False),
    "RocketMQ Connect's workers": partial(_unused_worker_keys, of_rocketmq=True),
    "connectors": _unused_connector_keys,
}


def _compatibility_table(name: str) -> str:
    text = COMPATIBILITY_TABLES[name]()
    return f"<!-- compatibility keys: {name} -->\n\n{text}\n<!-- end of compatibility keys -->\n"


def refresh(text: str, specs: Mapping[str, pb.ConnectorSpec] = SPECS) -> str:
    """Return a README, or a page, with fresh tables.

    Raises:
        KeyError: no connector, or no table of other products' keys, has the name that a mark has.
    """
    text = TABLE.sub(lambda found: key_table(specs[found[1]]), text)
    return COMPATIBILITY_TABLE.sub(lambda found: _compatibility_table(found[1]), text)


def tables_of(text: str) -> list[str]:
    """Return the connectors whose tables a README has."""
    return TABLE.findall(text)


def compatibility_tables_of(text: str) -> list[str]:
    """Return the tables of other products' keys that a page has."""
    return COMPATIBILITY_TABLE.findall(text)


def readmes() -> Iterator[tuple[Path, str]]:
    """Yield the READMEs and pages that have tables, with their texts."""
    for file in [*sorted(HERE.glob("*/**/README.md")), *sorted(PAGES.glob("*.md"))]:
        text = file.read_text(encoding="utf-8")
        if tables_of(text) or compatibility_tables_of(text):
            yield file, text


def main(words: list[str]) -> int:
    """Write the tables, or name those that are not fresh."""
    stale = [(file, refresh(text)) for file, text in readmes() if refresh(text) != text]
    for file, fresh in stale:
        print(file)
        if "--check" not in words:
            file.write_text(fresh, encoding="utf-8")
    return 1 if stale and "--check" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
