"""What connectors may reach, by rules of the node."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.connector_config.validation import refuse_errors
from penstock.model.config_def import parse
from penstock.model.connector import CommitMode, Connector, ConnectorKind, Partition, TaskPlan
from penstock.model.dead_letter_queue import DeadLetterQuery
from penstock.model.errors import ConfigError
from penstock.model.stream import StreamSchema
from penstock.plugin.catalog.manifest import Kind
from penstock.plugin.responses import ConnectorSpec
from penstock.secrets.provider import ProviderResponse
from penstock.secrets.resolution import NO_SECRETS, Secrets
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker.admin.dead_letter_reader import DeadLetterReader
from penstock.worker.config.plugin_transforms import (
    attach_plugins,
    build_connector_chain,
    validate_plugin_transforms,
)
from penstock.worker.config.reach import NO_RULES, ConnectorBounds, ReachRules, read_reach_rules
from penstock.worker.config.resolved_config import (
    ResolvedConfig,
    WorkerContext,
    acquire_plugin,
    resolve_config,
)
from penstock.worker.process_keys import KEYS
from penstock.worker.process_settings import read_worker_settings
from penstock.worker.streams import StreamFactory
from penstock.worker.task_plans import Planner, make_topic_watch
from unit.worker.test_resolved_config import NO_HOST

TEAM_A = {
    "reach.team-a.connectors": "team-a-.*",
    "reach.team-a.topics": "team-a-.*",
    "reach.team-a.secrets": "env:TEAM_A_.*,file:/etc/team-a/.*",
    "reach.team-a.folders": "/data/team-a",
    "reach.team-a.hosts": "DB.example,10.1.0.0/16",
}
TOLD = {"reach.folders": "/data/team-a", "reach.hosts": "db.example,10.1.0.0/16"}
OPEN_PREFIXES = {f"reach.rest.{key}": "*" for key in ("topics", "secrets", "folders", "hosts")}
REPLAN_INTERVAL_S = {"reach.rest.connectors": "rest-.*", **OPEN_PREFIXES}
NODE = read_reach_rules(["team-a", "rest"], {**TEAM_A, **REPLAN_INTERVAL_S})


class Everything:
    """Knows every secret, and counts its calls."""

    def __init__(self):
        self.asked = 0

    async def read(self, path, keys):
        self.asked += 1
        return ProviderResponse(dict.fromkeys(keys, "S3CRET-of-another-team"))

    async def close(self):
        """Nothing is held."""


def resolved(
    name: str = "team-a-x",
    kind: ConnectorKind = ConnectorKind.SOURCE,
    secrets: Secrets = NO_SECRETS,
    rules: ReachRules = NODE,
    **config: str,
) -> ResolvedConfig:
    keys = {key.replace("__", "."): value for key, value in config.items()}
    given = keys if kind is ConnectorKind.PIPELINE else {"connector.class": "x", **keys}
    connector = Connector(name, given, kind, "g1")
    return asyncio.run(resolve_config(NO_HOST, secrets, connector, ConnectorBounds(reach=rules)))


def refused(made: ResolvedConfig) -> list[tuple[str, str]]:
    found = [one for one in made.findings if one.code.startswith("reach.")]
    for one in found:
        assert "reach.team-a.topics" in one.fix
    return [(one.code, one.config_path) for one in found]


def test_without_rules_everything_may_be_reached():
    made = resolved(rules=NO_RULES, topic="any")
    assert (made.findings, made.reach.rule) == ((), "")


def test_the_first_rule_that_matches_the_whole_name_counts():
    rules = read_reach_rules(
        ["one", "two"], {"reach.one.connectors": "a.*", "reach.two.connectors": ".*"}
    )
    assert [rules.for_connector(name).rule for name in ("ab", "ba", "a")] == ["one", "two", "one"]


def test_a_connector_without_a_matching_rule_is_refused():
    with pytest.raises(ConfigError) as caught:
        resolved("xteam-a-x")
    found = caught.value.diagnostic
    assert (found.code, found.config_path) == ("reach.no_rule", "name")


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("team-a-x", False), ("rest-x", True),
    ],
)  # fmt: skip
def test_unlisted_resources_are_denied_and_a_star_opens_them(name, allowed):
    rules = read_reach_rules(
        ["a", "rest"], {"reach.a.connectors": "team-a-.*", **REPLAN_INTERVAL_S}
    )
    reach = rules.for_connector(name)
    assert reach.has_topic("anything") is allowed
    assert (reach.folders, reach.hosts) == ((None, None) if allowed else ((), ()))


@pytest.mark.parametrize(
    ("names", "config", "code", "path"),
    [
        (["a"], {}, "config.missing", "reach.a.connectors"),
        (["a"], {"reach.a.connectors": "("}, "config.bad_pattern", "reach.a.connectors"),
        (["a"], {"reach.a.connectors": "x", "reach.a.topics": "("}, "config.bad_pattern",
         "reach.a.topics"),
        (["a"], {"reach.a.connectors": "x", "reach.a.topcis": "x"}, "config.unknown_key",
         "reach.a.topcis"),
        (["a"], {"reach.a.connectors": "x", "reach.b.topics": "x"}, "reach.unknown_rule",
         "reach.b.topics"),
        ([], {"reach.b.connectors": "x"}, "reach.unknown_rule", "reach.b.connectors"),
        (["a b"], {}, "reach.bad_name", "reach"),
        (["a"], {"reach.a.connectors": "x", "reach.a.folders": "data"}, "config.bad_value",
         "reach.a.folders"),
        (["a"], {"reach.a.connectors": "x", "reach.a.hosts": "10.1.2.3/16"}, "config.bad_value",
         "reach.a.hosts"),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_reported_with_its_key(names, config, code, path):
    with pytest.raises(ConfigError) as caught:
        read_reach_rules(names, config)
    found = caught.value.diagnostic
    assert (found.code, found.config_path) == (code, path)
    assert found.fix


def test_a_worker_reads_its_rules():
    keys = {"reach": "team-a", **TEAM_A}
    settings = read_worker_settings(parse(KEYS, {"reach": "team-a"}), keys, Path("topics"))
    assert settings.reach.for_connector("team-a-x").hosts == ("db.example", "10.1.0.0/16")


ALLOWED = ("${env:TEAM_A_PASS}", "a ${file:/etc/team-a/db.properties:password} b")
DENIED = (
    "${env:DB_PASS}",
    "${env:TEAM_A_PASS} ${env:DB_PASS}",
    "${file:/etc/team-b/db.properties:password}",
    "${file:/etc/team-a/../team-b/db.properties:password}",
    "${dir:/etc/team-a:password}",
    "${file:/etc/team-a/x:../../team-b}",
)


@pytest.mark.parametrize("value", ALLOWED)
def test_a_secret_of_the_rule_is_looked_up(value):
    everything = Everything()
    providers = Secrets(dict.fromkeys(("env", "file", "dir"), everything))
    made = resolved(secrets=providers, password=value)
    assert "S3CRET" in made.values["password"]


@pytest.mark.parametrize("value", DENIED)
@pytest.mark.parametrize("key", ["password", "transforms__t__static__value", "topic"])
def test_a_secret_out_of_reach_is_refused_before_any_lookup(key, value):
    everything = Everything()
    providers = Secrets(dict.fromkeys(("env", "file", "dir"), everything))
    with pytest.raises(ConfigError) as caught:
        resolved(secrets=providers, **{key: value})
    found = caught.value.diagnostic
    assert (found.code, found.config_path) == ("reach.secret", key.replace("__", "."))
    assert "reach.team-a.secrets" in found.fix
    assert everything.asked == 0


def test_a_reference_without_a_provider_is_text():
    assert resolved(password="${other:x}").values["password"] == "${other:x}"


@pytest.mark.parametrize(
    ("kind", "config", "path"),
    [
        (ConnectorKind.SINK, {"topics": "team-a-1,team-b-rows"}, "topics"),
        (ConnectorKind.SOURCE, {"topic": "team-b-rows"}, "topic"),
        (ConnectorKind.MIRROR, {"topics": "team-a-1", "topic": "team-b-rows"}, "topic"),
        (ConnectorKind.SOURCE, {"errors__deadletterqueue__topic__name": "team-b",
         "errors__tolerance": "all"}, "errors.deadletterqueue.topic.name"),
    ],
)  # fmt: skip
def test_a_configured_topic_out_of_reach_is_refused(kind, config, path):
    assert refused(resolved(kind=kind, **config)) == [("reach.topic", path)]
    assert refused(resolved("rest-x", kind, **config)) == []


def test_the_default_topic_of_dead_letters_is_one_of_them():
    rules = read_reach_rules(["a"], {"reach.a.connectors": ".*", "reach.a.topics": "team-a-.*"})
    made = resolved("other", rules=rules, errors__tolerance="all", topic="team-a-1")
    found = [one.config_path for one in made.findings if one.code == "reach.topic"]
    assert found == ["errors.deadletterqueue.topic.name"]


@pytest.mark.parametrize(
    ("kind", "config", "path"),
    [
        (ConnectorKind.SOURCE, {"reach__folders": "*"}, "reach.folders"),
        (ConnectorKind.PIPELINE, {"source__reach__hosts": "*"}, "source.reach.hosts"),
        (ConnectorKind.PIPELINE, {"sink__reach__any": "*"}, "sink.reach.any"),
        (ConnectorKind.SOURCE, {"errors__deadletterqueue__sink__reach__folders": "*"},
         "errors.deadletterqueue.sink.reach.folders"),
        (ConnectorKind.SOURCE, {"transforms__t__reach__folders": "*"},
         "transforms.t.reach.folders"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rules", [NODE, NO_RULES])
def test_reserved_keys_are_refused(kind, config, path, rules):
    with pytest.raises(ConfigError) as caught:
        resolved(kind=kind, rules=rules, **config)
    found = caught.value.diagnostic
    assert (found.code, found.config_path) == ("reach.reserved", path)


class Host:
    """Has one connector, which enforces reach or does not."""

    def __init__(self, *, enforces: bool, kind: Kind = Kind.SOURCE):
        self.spec = ConnectorSpec("x", kind, enforces_reach=enforces)
        self.told: dict[str, str] = {}

    def find(self, name: str, version: str = ""):
        return None, SimpleNamespace(kind=self.spec.kind, name=name)

    isolation = "shared"

    async def acquire(self, name: str, version: str = "", task: str = "", owner: str = ""):
        connection = SimpleNamespace(redact=SimpleNamespace(add_secrets=list), idle_timer=None)
        return SimpleNamespace(
            spec=self.spec, connector=name, validate=self._validate, connection=connection,
            address="", credential="", dial_info={},
        )  # fmt: skip

    async def _validate(self, target):
        self.told = dict(target.config)
        return SimpleNamespace(values=(), diagnostics=())


def target_of(host: Any, made: ResolvedConfig):
    _, target = asyncio.run(acquire_plugin(host, made, "source"))
    return target


def test_a_plugin_that_enforces_reach_gets_folders_and_hosts():
    target = target_of(Host(enforces=True), resolved(file="/data/team-a/x"))
    assert dict(target.config) == {"file": "/data/team-a/x", **TOLD}


def test_a_plugin_gets_no_reach_keys_where_nothing_is_bounded():
    for enforces in (True, False):
        target = target_of(Host(enforces=enforces), resolved("rest-x", file="/any"))
        assert dict(target.config) == {"file": "/any"}


def test_a_plugin_that_does_not_enforce_reach_is_refused_where_folders_or_hosts_are_bounded():
    with pytest.raises(ConfigError) as caught:
        target_of(Host(enforces=False), resolved())
    found = caught.value.diagnostic
    assert (found.code, found.config_path) == ("reach.plugin", "connector.class")
    assert "`reach.team-a.folders=*` and `reach.team-a.hosts=*`" in found.fix
    rules = {"reach.a.connectors": ".*", "reach.a.folders": "*", "reach.a.hosts": "x"}
    with pytest.raises(ConfigError, match=r"reach\.plugin") as caught:
        target_of(Host(enforces=False), resolved(rules=read_reach_rules(["a"], rules)))
    assert "folders=" not in caught.value.diagnostic.fix


def test_a_plugin_transform_gets_reach_keys_or_is_refused():
    transform = {"transforms": "t", "transforms.t.type": "x", "transforms.t.a": "1"}
    made = resolved(**{key.replace(".", "__"): value for key, value in transform.items()})
    host: Any = Host(enforces=False, kind=Kind.TRANSFORM)
    with pytest.raises(ConfigError) as caught:
        asyncio.run(validate_plugin_transforms(host, build_connector_chain(host, made, ()), made))
    found = caught.value.diagnostic
    assert (found.code, found.config_path) == ("reach.plugin", "transforms.t.type")
    host = Host(enforces=True, kind=Kind.TRANSFORM)
    assert (
        asyncio.run(validate_plugin_transforms(host, build_connector_chain(host, made, ()), made))
        == []
    )
    assert host.told == {"a": "1", **TOLD}
    routed, _ = asyncio.run(
        attach_plugins(host, build_connector_chain(host, made, ()), made, lambda *_: None)
    )
    assert dict(routed.chain.plugin_transforms[0].config) == {"a": "1", **TOLD}


class Topics:
    """Topics of two teams."""

    async def count_partitions(self, _: str) -> int:
        return 1

    async def list_names(self) -> list[str]:
        return ["team-a-1", "team-b-1", "team-a-2"]


def planned(**config: str) -> list[str]:
    given = {"connector.class": "x", **{k.replace("__", "."): v for k, v in config.items()}}
    connector = Connector("team-a-x", given, ConnectorKind.SINK, "g1")
    plan = asyncio.run(
        Planner(WorkerContext(NO_HOST, bounds=ConnectorBounds(reach=NODE)), Topics()).plan(
            connector
        )
    )
    return [part.key["topic"] for task in plan.plans for part in task.partitions]


def test_matching_topics_out_of_reach_are_left_out_with_one_warning(caplog):
    assert planned(topics__regex=".*") == ["team-a-1", "team-a-2"]
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "team-a-x: 1 topics" in warning
    assert "'team-a'" in warning


def test_a_plan_with_a_named_topic_out_of_reach_is_refused():
    with pytest.raises(ConfigError, match=r"reach\.topic"):
        planned(topics="team-b-1")


def test_the_watch_of_a_sink_ignores_topics_out_of_reach():
    async def first() -> list[str]:
        made = await resolve_config(NO_HOST, NO_SECRETS, SINK, ConnectorBounds(reach=NODE))
        watch = make_topic_watch(Topics(), made)
        known = (TaskPlan("", tuple(Partition({"topic": f"team-a-{n}", "partition": 0})
                 for n in (1, 2))),)  # fmt: skip
        await watch.open(known)
        try:
            async with asyncio.timeout(0.2):
                return [reason async for reason in watch]
        except TimeoutError:
            return []

    assert asyncio.run(first()) == []


SINK = Connector(
    "team-a-x", {"connector.class": "x", "topics.regex": ".*"}, ConnectorKind.SINK, "g1"
)
ROWS = pa.schema([("n", pa.int64())])


def over(tmp_path, test):
    """Run a test over the topics of a folder."""

    async def main():
        async with asyncio.timeout(60), EmbeddedTopics(tmp_path) as topics:
            await test(topics)

    asyncio.run(main())


async def opened(topics, **config: str):
    """Return source and sink of a mirror, which reads and writes topics."""
    given = {"topics": "team-a-1"} | {k.replace("__", "."): v for k, v in config.items()}
    connector = Connector("team-a-x", given, ConnectorKind.MIRROR, "g1")
    made = await resolve_config(NO_HOST, NO_SECRETS, connector, ConnectorBounds(reach=NODE))
    return await StreamFactory(NO_HOST, topics).create(made, TaskPlan("g1-0"), 1)


def test_a_routed_topic_out_of_reach_is_neither_written_nor_created(tmp_path):
    async def test(topics):
        ends = await opened(topics)
        await ends.writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        await ends.writer.apply_schema(StreamSchema(1, "team-a-2", ROWS))
        for call in (
            ends.writer.apply_schema(StreamSchema(2, "team-b-1", ROWS)),
            ends.writer.columns("team-b-1"),
        ):
            with pytest.raises(ConfigError, match=r"reach\.topic"):
                await call
        assert await topics.list_names() == ["team-a-2"]

    over(tmp_path, test)


def test_a_topic_of_an_older_plan_is_not_read(tmp_path):
    async def test(topics):
        ends = await opened(topics)
        ends.open_reader(TaskPlan("g1-0", (Partition({"topic": "team-a-1", "partition": 0}),)))
        with pytest.raises(ConfigError, match=r"reach\.topic"):
            ends.open_reader(TaskPlan("g1-0", (Partition({"topic": "team-b", "partition": 0}),)))

    over(tmp_path, test)


def test_dead_letters_of_a_topic_out_of_reach_are_neither_listed_nor_replayed(tmp_path):
    async def test(topics):
        reader = DeadLetterReader(topics, NO_HOST, NODE)
        with pytest.raises(ConfigError, match=r"reach\.topic"):
            await anext(reader.read(DeadLetterQuery("team-b-letters", "team-a-x")))
        with pytest.raises(ConfigError, match=r"reach\.topic"):
            await opened(
                topics,
                replay__of="team-a-y",
                replay__letters="0/1",
                errors__deadletterqueue__topic__name="team-b-letters",
            )

    over(tmp_path, test)


def test_a_preview_of_another_teams_topic_is_refused():
    with pytest.raises(ConfigError, match=r"reach\.topic"):
        refuse_errors(resolved(kind=ConnectorKind.SINK, topics="team-b-rows").findings)
