"""A window of a snapshot stays open while changes from before its end are gathered."""

import functools
from types import SimpleNamespace

from penstock_databases.cdc.progress import Window, Work
from penstock_databases.mysql_cdc.position import Place
from penstock_databases.mysql_cdc.progress import TableProgress
from penstock_databases.mysql_cdc.server import Origin
from penstock_databases.mysql_cdc.source import MysqlCdc

TABLE = ("shop", "orders")


def test_a_window_is_not_closed_while_changes_are_gathered():
    """The log may rest within a transaction behind the window: what is gathered is older."""
    source = object.__new__(MysqlCdc)  # without its server
    window = Window(TABLE, None, None, Place("log.000001", 100))
    source._progress = TableProgress(windows=[window])
    log = SimpleNamespace(track=SimpleNamespace(number=Place("log.000001", 200).number))
    source._gathering = SimpleNamespace(holds=True)
    source._close_windows(log)
    assert source._progress.windows == [window]
    source._gathering = SimpleNamespace(holds=False)
    source._close_windows(log)
    assert source._progress.windows == []


def half_read(**more):
    """A task that reads one table without a key, and is paused."""
    progress = TableProgress({TABLE: Work(TABLE, begun=True, condition="id < 7")}, **more)
    progress.paused = True
    return progress


def test_a_table_without_a_key_begins_again_with_its_condition_and_its_pause():
    progress = half_read()
    progress.resumed()
    assert progress.work == {TABLE: Work(TABLE, condition="id < 7")}
    assert progress.paused


def test_a_table_that_was_emptied_begins_again_with_its_condition_and_its_pause():
    source = object.__new__(MysqlCdc)  # without its server
    source._progress, source._ready = half_read(), []
    origin = SimpleNamespace(_config=SimpleNamespace(snapshot_statements={}), exact=True)
    origin.add_tables = functools.partial(Origin.add_tables, origin)
    source._origin, source._tables = origin, SimpleNamespace(latest=lambda *_: None)
    log = SimpleNamespace(track=SimpleNamespace(number=1))
    source._truncated(TABLE, SimpleNamespace(stamp=1), log)
    assert source._progress.work == {TABLE: Work(TABLE, condition="id < 7")}
    assert source._progress.paused
