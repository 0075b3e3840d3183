"""A window of a snapshot stays open while changes from before its end are gathered."""

from types import SimpleNamespace

from penstock_databases.cdc.progress import Window
from penstock_databases.mysql_cdc.position import Place
from penstock_databases.mysql_cdc.progress import TableProgress
from penstock_databases.mysql_cdc.source import MysqlCdc


def test_a_window_is_not_closed_while_changes_are_gathered():
    """The log may rest within a transaction behind the window: what is gathered is older."""
    source = object.__new__(MysqlCdc)  # without its server
    window = Window(("shop", "orders"), None, None, Place("log.000001", 100))
    source._progress = TableProgress(windows=[window])
    log = SimpleNamespace(track=SimpleNamespace(number=Place("log.000001", 200).number))
    source._gathering = SimpleNamespace(count=1)
    source._close_windows(log)
    assert source._progress.windows == [window]
    source._gathering = SimpleNamespace(count=0)
    source._close_windows(log)
    assert source._progress.windows == []
