"""A backup of a node, whose state is in a folder, and a restore into a folder that has none.

The file is that of a cluster, so each can become the other. A node keeps nothing sealed, so it
could not read what a cluster has sealed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from penstock.cluster.backup import TakenBackup
from penstock.cluster.backup_file import (
    BackupHeader,
    BackupWriter,
    file_in,
    read_entries,
    verify_backup,
)
from penstock.cluster.restore import RestoredCluster
from penstock.cluster.restore_order import STATE, base_of_epochs, shift_revisions
from penstock.model.errors import ConfigError
from penstock.standalone.settings import STATE_FILE, prepare_folder
from penstock.store.port import Entry
from penstock.store.sealed_store import MARK
from penstock.store.sqlite_copy import fill_file, open_snapshot


def back_up_node(folder: Path, place: Path) -> TakenBackup:
    """Write a backup of a state folder to a file, or to a new file in a folder. The node may run.

    Raises:
        ConfigError: `backup.nothing`, `backup.exists`, `store.foreign`, `store.newer`.
        RetriableError: `backup.not_written`.
    """
    file = folder / STATE_FILE
    if not file.is_file() or not file.stat().st_size:
        raise _nothing(folder)
    with open_snapshot(file) as snapshot:
        header = BackupHeader("", snapshot.revision)
        with BackupWriter(file_in(place, header), header) as out:
            out.write(replace(one, key=STATE + one.key) for one in snapshot.entries)
            if not out.entries:
                raise _nothing(folder)
            taken = out.finish()
    topics = folder / "topics"
    return TakenBackup(taken, str(topics) if topics.is_dir() else "")


def restore_node(folder: Path, file: Path, epochs_above: int = 0) -> RestoredCluster:
    """Put a backup into a state folder without state. All of it is there, or nothing.

    Raises:
        ConfigError: the file is damaged (`backup.*`), the node runs (`store.locked`) or has state
            (`restore.not_empty`), or the backup has what a node cannot read (`restore.sealed`).
    """
    backup = verify_backup(file)
    base = base_of_epochs(backup.header.revision, epochs_above)
    lowest = min((one.revision for one in read_entries(backup)), default=0)
    newest = max((one.revision for one in read_entries(backup)), default=0)
    prepare_folder(folder)
    shifted = shift_revisions(_of_a_node(file, read_entries(backup)), lowest, base)
    last = max(backup.header.revision, newest) - lowest + base + 1
    if key := fill_file(folder / STATE_FILE, shifted, last):
        raise ConfigError(
            "restore.not_empty",
            f"{folder / STATE_FILE} has state, for instance the key {key}; a restore overwrites "
            "nothing",
            fix="Name another folder with --state. Or back this one up, and then delete it where "
            f"the backup is to take its place: rm {folder / STATE_FILE}*",
        )
    return RestoredCluster("", backup.entries, base)


def _of_a_node(file: Path, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries of the store. Refuse those that a node cannot read."""
    for entry in entries:
        if entry.value.startswith(MARK):
            raise ConfigError(
                "restore.sealed",
                f"{file} has values that `store.seal.keys` of a cluster encrypts, for instance "
                f"that of {entry.key}, and a node has no such keys",
                fix="Restore it into a cluster that has these keys: without --state.",
            )
        if entry.key.startswith(STATE):
            yield entry


def _nothing(folder: Path) -> ConfigError:
    return ConfigError(
        "backup.nothing",
        f"nothing is stored in {folder}",
        fix="Name the folder of `state.dir`, or of `--state`; that of `penstock run FILE` is "
        "~/.local/state/penstock/run/NAME.",
        config_path="state.dir",
    )
