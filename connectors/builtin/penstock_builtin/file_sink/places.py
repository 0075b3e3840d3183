"""The places that a task has open, by dataset."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH120, PTH207

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Iterator

from penstock_builtin.file_sink import disk
from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.place import Place, target_path
from penstock_builtin.opening import telling

_HIDDEN = ".penstock"


class Places:
    """Opens and claims places when they are first needed. Used by several threads at once."""

    def __init__(self, config: FileSinkConfig, task_id: str, epoch: int) -> None:
        self._template = config.path or config.file
        self._is_folder = bool(config.path)
        self._roots = config.roots
        self._task_id, self._epoch = task_id, epoch
        self._open: dict[tuple[str, str], Place] = {}
        self._lock = threading.Lock()

    def of(self, dataset: str) -> Place:
        """Return the place of a dataset."""
        path = target_path(self._template, dataset, self._task_id)
        return self.at(path, "") if self._is_folder else self.at(*os.path.split(path))

    def open_fixed(self) -> None:
        """Open the place now when it is the same for all datasets: so its errors come early."""
        if "${topic}" not in self._template:
            self.of("")

    def at(self, folder: str, name: str) -> Place:
        """Return the place that is a file, or without a name a folder of files."""
        with self._lock, telling(folder):
            place = self._open.get((folder, name))
            if place is None:
                place = Place(folder, name, self._task_id, self._roots)
                try:
                    place.claim(self._task_id, self._epoch)
                except BaseException:
                    place.close()
                    raise
                self._open[folder, name] = place
        return place

    def sweep(self, life: str) -> None:
        """Remove what earlier lives of the task staged, in every place that there is."""
        for folder, name in self._existing():
            place = self.at(folder, name)
            with telling(folder):
                for leftover in place.leftovers(life):
                    disk.unlink(place.staging, leftover)

    def _existing(self) -> Iterator[tuple[str, str]]:
        any_topic = glob.escape(self._template).replace("${topic}", "*")
        path = target_path(any_topic, "", self._task_id)
        if self._is_folder:
            for found in glob.glob(f"{path}/{_HIDDEN}"):
                yield os.path.dirname(found), ""
            return
        folder, name = os.path.split(path)
        for found in glob.glob(f"{folder}/.{name}{_HIDDEN}"):
            folder, hidden = os.path.split(found)
            yield folder, hidden[1 : -len(_HIDDEN)]

    def close(self) -> None:
        """Let go of all of them."""
        for place in self._open.values():
            place.close()
        self._open.clear()
