"""Patches, versions, diffs, rollbacks, restart requests, and validation."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from penstock.config import MAX_REVISIONS, rules, service
from penstock.config.records import StoredConnector
from penstock.model.config_redaction import compare_configs
from penstock.model.connector import (
    Connector,
    ConnectorKind,
    RestartRequest,
    RevisionCause,
    TargetState,
)
from penstock.model.errors import ConfigError, Diagnostic, RetriableError


async def created(room, **config):
    return (await room.connectors.create(Connector("orders", config))).connector


def test_a_patch_sets_and_removes_keys_and_leaves_the_rest(room):
    async def test(room):
        await created(room, a="1", b="2", c="3")
        stored, changed = await room.connectors.patch("orders", {"a": "9", "d": "4"}, {"b"}, 0)
        assert changed
        assert stored.connector.config == {"a": "9", "c": "3", "d": "4"}
        again = await room.connectors.patch("orders", {"a": "9"}, {"b", "never"}, 0)
        assert again == (stored, False)

    room(test)


def test_a_key_that_is_set_and_removed_is_refused(room):
    async def test(room):
        await created(room, a="1")
        with pytest.raises(ConfigError, match=r"config\.patch_twice.*`a`"):
            await room.connectors.patch("orders", {"a": "2"}, {"a"}, 0)

    room(test)


def test_of_two_patches_of_the_same_revision_one_is_refused_with_the_current_one(room):
    async def test(room):
        seen = (await created(room, a="1")).revision
        stored, _ = await room.connectors.patch("orders", {"a": "2"}, (), seen)
        with pytest.raises(ConfigError, match=r"config\.revision_changed") as caught:
            await room.connectors.patch("orders", {"b": "2"}, (), seen)
        assert caught.value.diagnostic.suggestion == str(stored.connector.revision)

    room(test)


def test_patches_of_different_keys_lose_nothing_to_each_other(room):
    async def test(room):
        await created(room)
        await asyncio.gather(
            *(room.connectors.patch("orders", {f"k{i}": "x"}, (), 0) for i in range(8))
        )
        found = await room.connectors.get("orders")
        assert found.connector.config == {f"k{i}": "x" for i in range(8)}
        assert found.connector.version == 9

    room(test)


def test_every_change_of_the_configuration_is_a_version_and_nothing_else_is(room):
    async def test(room):
        await created(room, a="1")
        await room.connectors.put(Connector("orders", {"a": "2"}), 0)
        await room.connectors.set_target_state("orders", TargetState.PAUSED)
        await room.connectors.request_restart("orders", RestartRequest(0))
        await room.connectors.put(Connector("orders", {"a": "2"}), 0)
        await room.connectors.patch("orders", {"a": "3"}, (), 0)
        found = await room.revisions.list("orders")
        assert [(r.version, r.cause) for r in found] == [
            (3, RevisionCause.PATCHED),
            (2, RevisionCause.PUT),
            (1, RevisionCause.CREATED),
        ]
        assert all(not r.config and r.written_at == 1000.5 for r in found)
        assert (await room.revisions.get("orders", 2)).config == {"a": "2"}

    room(test)


def test_the_newest_versions_are_kept(room):
    async def test(room):
        await created(room, a="0")
        for number in range(1, MAX_REVISIONS + 5):
            await room.connectors.patch("orders", {"a": str(number)}, (), 0)
        found = await room.revisions.list("orders")
        assert [r.version for r in found] == list(range(MAX_REVISIONS + 5, 5, -1))
        for version in (0, 5, MAX_REVISIONS + 6):
            with pytest.raises(ConfigError, match=r"config\.revision_not_found.*from 6 to 55"):
                await room.revisions.get("orders", version)

    room(test)


def test_a_rollback_is_a_new_version_and_keeps_the_target_state(room):
    async def test(room):
        await created(room, a="1")
        await room.connectors.put(Connector("orders", {"b": "2"}), 0)
        await room.connectors.set_target_state("orders", TargetState.STOPPED)
        stored, changed = await room.revisions.rollback("orders", 1, 0)
        assert changed
        assert stored.connector.config == {"a": "1"}
        assert stored.connector.target_state is TargetState.STOPPED
        newest = await room.revisions.get("orders", 3)
        assert (newest.cause, newest.restored) == (RevisionCause.ROLLED_BACK, 1)
        assert await room.revisions.rollback("orders", 1, 0) == (stored, False)
        with pytest.raises(ConfigError, match=r"config\.revision_changed"):
            await room.revisions.rollback("orders", 2, 1)

    room(test)


def test_a_namesake_has_no_versions_of_the_deleted(room):
    async def test(room):
        await created(room, a="1")
        await room.connectors.put(Connector("orders", {"a": "2"}), 0)
        await room.connectors.delete("orders", 0)
        await created(room, a="3")
        found = await room.revisions.list("orders")
        assert [r.version for r in found] == [1]

    room(test)


def test_a_diff_shows_what_was_added_removed_and_changed_and_no_secret(room):
    async def test(room):
        await created(room, gone="1", kept="1", url="jdbc://u:old@h/d", password="a", pin="1")
        config = {"kept": "1", "url": "jdbc://u:new@h/d", "password": "b", "pin": "2", "new": "x"}
        await room.connectors.put(Connector("orders", config, secret_keys=("pin",)), 0)
        found = await room.revisions.diff("orders", 1, 0)
        told = {d.key: (d.before, d.after, d.redacted) for d in found}
        assert told == {
            "gone": ("1", None, False),
            "new": (None, "x", False),
            "password": ("***", "***", True),
            "pin": ("***", "***", True),
            "url": ("jdbc://u:***@h/d", "jdbc://u:***@h/d", True),
        }

    room(test)


def test_a_reference_to_a_secret_is_not_redacted():
    (found,) = compare_configs({"password": "${env:A}"}, {"password": "${env:B}"})
    assert (found.before, found.after, found.redacted) == ("${env:A}", "${env:B}", False)


def test_restart_requests_are_kept_with_growing_markers_and_conflict_with_no_change(room):
    async def test(room):
        made = await created(room, a="1")
        one = RestartRequest(0, include_tasks=True, only_failed=True)
        two = RestartRequest(0, task_id=f"{made.generation}-3")
        await room.connectors.request_restart("orders", one)
        stored = await room.connectors.request_restart("orders", two)
        assert stored == await room.connectors.get("orders")
        assert stored.connector.revision == made.revision
        assert stored.connector.restarts == (
            RestartRequest(1, include_tasks=True, only_failed=True, requested_at=1000.5),
            RestartRequest(2, task_id=f"{made.generation}-3", requested_at=1000.5),
        )
        await room.connectors.put(Connector("orders", {"a": "2"}), made.revision)

    room(test)


def test_restart_requests_are_kept_for_a_time_and_their_markers_are_never_reused():
    stored = StoredConnector(Connector("orders", {}, generation="g"))
    for now in (1000.0, 1001.0, 1000.5 + rules.RESTART_RETENTION_S, 9000.0):
        stored = rules.add_restart_request(stored, RestartRequest(0), now)
        markers = [restart.marker for restart in stored.connector.restarts]
        assert markers == {1000.0: [1], 1001.0: [1, 2], 9000.0: [4]}.get(now, [2, 3])


def test_more_restart_requests_than_are_kept_are_refused_and_none_is_lost():
    """Invariant 12. An older one may be one that the scheduler has not seen yet."""
    stored = StoredConnector(Connector("orders", {}, generation="g"))
    for _ in range(rules.MAX_RESTART_REQUESTS):
        stored = rules.add_restart_request(stored, RestartRequest(0, only_failed=True), 1.0)
    assert len(stored.connector.restarts) == rules.MAX_RESTART_REQUESTS
    with pytest.raises(RetriableError, match=r"config\.too_many_restarts"):
        rules.add_restart_request(stored, RestartRequest(0), 2.0)
    again = rules.add_restart_request(stored, RestartRequest(0), 2.0 + rules.RESTART_RETENTION_S)
    assert [one.marker for one in again.connector.restarts] == [rules.MAX_RESTART_REQUESTS + 1]


@pytest.mark.parametrize("task", ["other-1", "{g}-", "{g}-x", "{g}"])
def test_a_restart_of_a_task_of_another_generation_is_refused(room, task):
    async def test(room):
        made = await created(room)
        with pytest.raises(ConfigError, match=r"config\.restart_task"):
            await room.connectors.request_restart(
                "orders", RestartRequest(0, task_id=task.format(g=made.generation))
            )

    room(test)


def test_a_page_has_the_requested_size_and_the_next_begins_after_it(room):
    async def test(room):
        names = [f"c{n:03d}" for n in range(120)]
        for name in names:
            await room.connectors.create(Connector(name, {}))
        found, after, more = [], "", True
        while more:
            page = await room.connectors.read_page("c", after, 50)
            found += [stored.connector.name for stored in page.connectors]
            after, more = found[-1], page.more
        assert found == names
        assert not (await room.connectors.read_page("d")).connectors

    room(test)


@pytest.mark.parametrize(("bytes_", "count", "reads"), [(10, 600, 4), (20_000, 260, 3)])
def test_a_page_of_small_ones_takes_few_reads_and_one_of_large_ones_reads_no_more_than_it_has(
    room, monkeypatch, bytes_, count, reads
):
    async def test(room):
        for number in range(count):
            await room.connectors.create(Connector(f"c{number:03d}", {"a": "x" * bytes_}))
        read, ranged = [], room.store.range

        async def counted(*arguments):
            page = await ranged(*arguments)
            read.append(len(page.entries))
            return page

        monkeypatch.setattr(room.store, "range", counted)
        page = await room.connectors.read_page()
        assert len(read) == reads
        assert sum(read) == len(page.connectors)
        assert page.more is (sum(read) < count)

    room(test)


def test_the_living_connector_of_a_generation_is_found(room):
    async def test(room):
        made = await created(room)
        found, revision = await room.connectors.find_generation(made.generation)
        assert found.connector == made
        assert revision >= made.revision
        await room.connectors.delete("orders", 0)
        await created(room)
        assert (await room.connectors.find_generation(made.generation))[0] is None

    room(test)


@dataclass
class FakeWorker:
    """A worker that finds what the test says."""

    diagnostics: tuple[Diagnostic, ...] = ()
    kind: ConnectorKind = ConnectorKind.SINK
    secret_keys: tuple[str, ...] = ()
    asked: list[Connector] = field(default_factory=list)

    async def validate(self, connector):
        """Find it."""
        self.asked.append(connector)
        return self


def test_a_configuration_is_checked_by_the_rules_before_a_worker_is_called():
    async def main():
        worker = FakeWorker((Diagnostic("config.unknown_key", "`x`"),))
        found = await service.validate_config(Connector("a\nb", {}), worker)
        assert [d.code for d in found.diagnostics] == ["config.name"]
        assert worker.asked == []
        found = await service.validate_config(Connector("orders", {"x": "1"}), worker)
        assert [d.code for d in found.diagnostics] == ["config.unknown_key"]
        assert found.kind is ConnectorKind.SINK
        with pytest.raises(RetriableError, match=r"config\.no_worker"):
            await service.validate_config(Connector("orders", {}), None)

    asyncio.run(main())
