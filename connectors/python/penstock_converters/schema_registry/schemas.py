"""Which schema of a registry messages have: by their id, or by the subject of their topic. What a
registry said is remembered, up to a number of schemas.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from penstock_converters import SchemaRefusedError
from penstock_converters.schema_registry.client import (
    NotThereError,
    RegisteredSchema,
    RegistryClient,
    references_of,
)
from penstock_converters.schema_registry.keys import RegistryOptions

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAX_REFERENCES: Final = 200
_UNKNOWN_S: Final = 5.0
"""Seconds for which an id is not asked for again. Another registry behind the same name may know it
a moment later.
"""

MAX_UNKNOWN: Final = 500
"""Unknown ids of a batch that are asked for: bytes that are no ids at all would make as many
questions.
"""


class Cache(OrderedDict[K, V]):
    """The values that were used last, up to a number."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def remember(self, key: K, make: Callable[[], V]) -> V:
        """Return a value, made when it is not there."""
        if key not in self:
            self[key] = make()
            while len(self) > self._size:
                self.popitem(last=False)
        self.move_to_end(key)
        return self[key]


@dataclass(frozen=True, slots=True)
class SchemaToUse:
    """A schema of the registry, and all that it uses.

    Attributes:
        schema: The schema.
        references: Name and text of what it uses, each after what it uses itself.
    """

    schema: RegisteredSchema
    references: tuple[tuple[str, str], ...] = ()


class SchemaRegistry:
    """A registry, as converters use it."""

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._made: RegistryClient | None = None
        self._by_id: Cache[int, SchemaToUse] = Cache(options.max_schemas)
        self._ids: Cache[tuple[str, str], int] = Cache(options.max_schemas)
        self._latest: Cache[str, tuple[float, SchemaToUse]] = Cache(options.max_schemas)
        self._unknown: Cache[int, float] = Cache(options.max_schemas)

    def close(self) -> None:
        """Close all connections."""
        if self._made is not None:
            self._made.close()

    @property
    def _client(self) -> RegistryClient:
        if self._made is None:  # files are read at first use: the node may say which
            self._made = RegistryClient(self._options.client, self._options.tls())
        return self._made

    def schema_by_id(self, number: int) -> SchemaToUse | None:
        """Return the schema of an id; None: the registry does not know it."""
        if time.monotonic() < self._unknown.get(number, 0.0):
            return None
        try:
            return self._by_id.remember(number, lambda: self._fetch(number))
        except NotThereError:
            self._unknown.remember(number, lambda: time.monotonic() + _UNKNOWN_S)
            self._unknown[number] = time.monotonic() + _UNKNOWN_S
            return None

    def _fetch(self, number: int) -> SchemaToUse:
        return self._resolve(replace(self._client.schema_by_id(number), id=number))

    def _resolve(self, schema: RegisteredSchema) -> SchemaToUse:
        return SchemaToUse(schema, tuple(references_of(self._client, schema, _MAX_REFERENCES)))

    def schema_to_write(self, topic: str, record_name: str, own: RegisteredSchema) -> SchemaToUse:
        """Return the schema to write rows by, with its id: their own one, or another one as the
        keys say.

        Args:
            topic: Where they go.
            record_name: Full name of the schema; "" when it has none.
            own: The schema of the rows.

        Raises:
            SchemaRefusedError: `registry.not_registered`, `registry.incompatible`, …
        """
        options = self._options
        subject = self._subject(topic, record_name)
        if options.registers:
            number = self._ids.remember(
                (subject, own.text),
                lambda: self._client.register(subject, own, normalize=options.normalizes),
            )
            return SchemaToUse(replace(own, id=number))
        try:
            if options.schema_id >= 0:
                return self._by_id.remember(
                    options.schema_id, lambda: self._fetch(options.schema_id)
                )
            if options.uses_latest:
                return self._find_latest(subject)
            number = self._ids.remember(
                (subject, own.text),
                lambda: self._client.find(subject, own, normalize=options.normalizes),
            )
        except NotThereError as error:
            raise _not_registered(subject, str(error)) from None
        return SchemaToUse(replace(own, id=number))

    def newest_schema(self, topic: str) -> SchemaToUse | None:
        """Return the newest schema of a topic, asked again each time; None: it has none, or its
        subject has the name of a record.
        """
        if self._options.strategy != "TopicNameStrategy":
            return None
        try:
            latest = self._client.schema_by_version(self._subject(topic, ""), "latest")
            return self._resolve(latest)
        except NotThereError:
            return None

    @property
    def is_of_keys(self) -> bool:
        """Whether the schemas are those of keys."""
        return self._options.is_key

    @property
    def id_bytes(self) -> int:
        """How many bytes of a message are the id of its schema."""
        return self._options.id_bytes

    @property
    def is_strict(self) -> bool:
        """Whether rows must have no column that the schema to write by lacks."""
        options = self._options
        return options.id_strict if options.schema_id >= 0 else options.latest_strict

    def _find_latest(self, subject: str) -> SchemaToUse:
        ttl, now = self._options.latest_ttl_s, time.monotonic()
        if subject in self._latest and 0 <= ttl < now - self._latest[subject][0]:
            del self._latest[subject]
        return self._latest.remember(
            subject,
            lambda: (now, self._resolve(self._client.schema_by_version(subject, "latest"))),
        )[1]

    def _subject(self, topic: str, record_name: str) -> str:
        strategy = self._options.strategy
        if strategy == "TopicNameStrategy":
            return f"{topic}-{'key' if self._options.is_key else 'value'}"
        if not record_name:
            raise SchemaRefusedError(
                "registry.no_subject",
                f"{strategy} names subjects by records, and the values are no records",
                "Use TopicNameStrategy, or rows with columns.",
            )
        return record_name if strategy == "RecordNameStrategy" else f"{topic}-{record_name}"


def _not_registered(subject: str, why: str) -> SchemaRefusedError:
    return SchemaRefusedError(
        "registry.not_registered",
        f"the registry has no such schema of the subject {subject!r}: {why}",
        "Register it, or set `auto.register.schemas=true`.",
    )
