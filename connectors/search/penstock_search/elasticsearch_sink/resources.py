"""Indices, aliases and data streams: their names, and that they are there with the right fields."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from penstock_connector import ConfigError, RetriableError, SchemaError
from penstock_search.elasticsearch_sink.client import SearchClient, error_of
from penstock_search.elasticsearch_sink.config import ElasticsearchSinkConfig
from penstock_search.elasticsearch_sink.field_mappings import properties_of

_MAX_NAME_BYTES: Final = 255
_FORBIDDEN: Final = frozenset(' "*\\<|,>/?#:')
_log = logging.getLogger(__name__)


def resource_of(config: ElasticsearchSinkConfig, topic: str) -> str:
    """Return the index, alias or data stream of a topic. Pure.

    Raises:
        ConfigError: `elasticsearch.no_resource`: none is named for it.
        SchemaError: `elasticsearch.bad_name`: the topic cannot be the name of one.
    """
    if config.external_resource_usage != "DISABLED":
        found = config.external_resources().get(topic)
        if found is None:
            raise ConfigError(
                "elasticsearch.no_resource",
                f"`topic.to.external.resource.mapping` names nothing for {topic[:200]!r}",
                fix=f"Add `{topic[:200]}:name` to it.",
                config_path="topic.to.external.resource.mapping",
            )
        return found
    lowered = topic.lower()
    kind = config.data_stream_type.lower()
    if kind != "none":
        parts = (config.data_stream_dataset, config.data_stream_namespace)
        filled = (part.replace("${topic}", lowered) for part in parts)
        return _checked("-".join((kind, *filled)), topic)
    return _checked(_index_of(lowered), topic)


def _index_of(topic: str) -> str:
    """Return a topic as Confluent's connector names its index."""
    if topic.startswith(("-", "_")):
        topic = topic[1:]
    return {".": "dot", "..": "dotdot"}.get(topic, topic)


def _checked(name: str, topic: str) -> str:
    size = len(name.encode("utf-8", "surrogatepass"))
    wrong = sorted(_FORBIDDEN & set(name))
    if name and size <= _MAX_NAME_BYTES and not wrong and name[0] not in "-_+":
        return name
    why = f"it has {size} bytes" if size > _MAX_NAME_BYTES else "it is empty"
    if name and size <= _MAX_NAME_BYTES:
        why = f"it has {wrong[0]!r}" if wrong else f"it begins with {name[0]!r}"
    raise SchemaError(
        "elasticsearch.bad_name",
        f"{topic[:100]!r} cannot be the name of an index: {why}",
        fix="Rename the topic by the transform RegexRouter, or name an index for it in "
        "`topic.to.external.resource.mapping`.",
        dataset=topic,
    )


class Resources:
    """What the task writes to.

    Attributes:
        names: The resources of topics that rows came of, by topic.
    """

    def __init__(self, config: ElasticsearchSinkConfig, client: SearchClient) -> None:
        self._config, self._client = config, client
        self.names = dict[str, str]()
        self._properties = dict[str, Mapping[str, Any]]()
        """Fields of indices that the connector makes."""

    def require_pipeline(self) -> None:
        """Refuse a pipeline that is not there: each document would fail.

        Raises:
            ConfigError: `elasticsearch.no_pipeline`.
        """
        name = self._config.pipeline
        if not name:
            return
        status, _ = self._client.ask(
            "GET", f"/_ingest/pipeline/{quote(name, safe='')}", fine=(404,)
        )
        if status == 404:
            raise ConfigError(
                "elasticsearch.no_pipeline",
                f"the servers have no ingest pipeline {name!r}",
                fix="Make it, or correct `pipeline`.",
                config_path="pipeline",
            )

    def name(self, topic: str) -> str:
        """Return what rows of a topic are written to. As `resource_of`."""
        return resource_of(self._config, topic)

    def add(self, topic: str, schema: pa.Schema) -> list[str]:
        """Make what rows of a topic are written to, with their fields, where it is missing.

        Returns:
            What was done.

        Raises:
            SchemaError: `elasticsearch.same_index`, `elasticsearch.bad_name`.
            ConfigError: `elasticsearch.no_resource`, `elasticsearch.no_template`.
        """
        name = resource_of(self._config, topic)
        external = self._config.external_resource_usage != "DISABLED"
        other = next((t for t, n in self.names.items() if n == name and t != topic), None)
        if other is not None and not external and not self._config.is_data_stream:
            raise SchemaError(
                "elasticsearch.same_index",
                f"{topic!r} and {other!r} would be the same index {name!r}, and their documents "
                "replace each other: names of indices are in lower case",
                fix="Name an index for each in `topic.to.external.resource.mapping`, or rename one "
                "topic by the transform RegexRouter.",
                dataset=topic,
            )
        self.names[topic] = name
        if external or self._config.is_data_stream:
            return self._require(name)
        wanted: dict[str, Mapping[str, Any]] = {}
        if not self._config.ignores_schema(topic):
            wanted = properties_of(schema, compact_maps=self._config.compact_map_entries)
        self._properties[name] = {**self._properties.get(name, {}), **wanted}
        return self._make_index(name) or self._add_fields(name, wanted)

    def renew(self) -> None:
        """Make again what was deleted since: else the server would make an index by itself, whose
        fields have the types of the first values.
        """
        for name in sorted(set(self.names.values())):
            if name in self._properties:
                done = self._make_index(name)
                if done:
                    _log.warning("index %s was deleted meanwhile, and is made anew", name)
            else:
                self._require(name)

    def _make_index(self, name: str) -> list[str]:
        path = f"/{quote(name, safe='')}"
        status, _ = self._client.ask("HEAD", path, fine=(404,))
        if status != 404:
            return []
        properties = self._properties[name]
        body = {"mappings": {"properties": properties}} if properties else {}
        status, answer = self._client.ask("PUT", path, json.dumps(body).encode(), fine=(400,))
        error = error_of(answer) or {}
        if status == 400 and error.get("type") != "resource_already_exists_exception":
            raise self._refused(name, "the index cannot be made", error)
        return [f"made index {name}"]

    def _add_fields(self, name: str, wanted: Mapping[str, Any]) -> list[str]:
        """Add the fields that an index lacks. Those that it has stay: a row that does not fit into
        them is refused by the server.
        """
        if not wanted:
            return []
        path = f"/{quote(name, safe='')}/_mapping"
        _, answer = self._client.ask("GET", path)
        known = set[str]()
        for index in (answer or {}).values():
            known |= (index.get("mappings") or {}).get("properties", {}).keys()
        missing = {field: kind for field, kind in wanted.items() if field not in known}
        if not missing:
            return []
        body = json.dumps({"properties": missing}).encode()
        status, answer = self._client.ask("PUT", path, body, fine=(400,))
        if status == 400:
            raise self._refused(name, "fields cannot be added to the index", error_of(answer) or {})
        return [f"added to index {name}: {', '.join(sorted(missing))}"]

    def _refused(self, name: str, what: str, error: Mapping[str, Any]) -> SchemaError:
        return SchemaError(
            "elasticsearch.mapping",
            f"{name}: {what}: {str(error.get('reason', ''))[:500]}",
            fix="Correct the columns, make the index yourself, or set `schema.ignore=true`.",
        )

    def _require(self, name: str) -> list[str]:
        """Raise where something is missing that is made elsewhere; make a data stream."""
        path = f"/{quote(name, safe='')}"
        if self._config.data_stream_type.lower() != "none":
            return self._make_stream(name)
        usage = self._config.external_resource_usage
        kind = "alias" if usage.startswith("ALIAS") else usage.lower().replace("stream", " stream")
        look = {"alias": f"/_alias{path}", "data stream": f"/_data_stream{path}"}.get(kind, path)
        status, _ = self._client.ask("HEAD" if kind != "data stream" else "GET", look, fine=(404,))
        if status == 404:
            raise ConfigError(
                "elasticsearch.no_resource",
                f"there is no {kind} {name!r}",
                fix="Make it, or correct `topic.to.external.resource.mapping`.",
                config_path="topic.to.external.resource.mapping",
            )
        return []

    def _make_stream(self, name: str) -> list[str]:
        path = f"/_data_stream/{quote(name, safe='')}"
        status, _ = self._client.ask("GET", path, fine=(404,))
        if status != 404:
            return []
        status, answer = self._client.ask("PUT", path, fine=(400,))
        error = error_of(answer) or {}
        if status != 400 or error.get("type") == "resource_already_exists_exception":
            return [f"made data stream {name}"]
        raise ConfigError(
            "elasticsearch.no_template",
            f"data stream {name} cannot be made: {str(error.get('reason', ''))[:300]}",
            fix="Make an index template for it: PUT /_index_template/NAME with "
            f'{{"index_patterns": ["{name}"], "data_stream": {{}}}}.',
            config_path="data.stream.type",
        )


def check_server(client: SearchClient) -> None:
    """Ask a server whether it is there and lets us in.

    Raises:
        ConnectorError: it is not, or does not.
        RetriableError: it is there, and no node of its cluster can write.
    """
    # what answers 405 has no page of its own there, and has let us in
    status, _ = client.ask("HEAD", "/", fine=(405,))
    if status not in {200, 405}:
        raise RetriableError("elasticsearch.server_error", f"the server answers {status} to HEAD /")
