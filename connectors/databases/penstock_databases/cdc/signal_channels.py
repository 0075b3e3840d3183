"""Signals that come beside the table of signals: one queue of them, whatever their channel.

How far each channel was read is in the offset that the work of its signals is in, too: a signal
whose offset was stored is never obeyed again, any other one is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol

from penstock_connector import ConfigError
from penstock_databases.cdc.keys import ChangeKeys
from penstock_databases.cdc.signal_file import SignalFile
from penstock_databases.cdc.signal_topic import SignalTopic
from penstock_databases.cdc.signals import Signal, read_signal
from penstock_databases.cdc.waiting import Every

_LOG = logging.getLogger(__name__)


class Channel(Protocol):
    """Where signals come from."""

    name: str

    def poll(self, place: Any) -> tuple[list[Mapping[str, Any] | ConfigError], Any]:
        """Return new signals behind a place, and the place behind them."""

    def close(self) -> None:
        """Let go of what is open."""


class SignalChannels:
    """The channels of a task. A channel that fails has a warning, and is asked again."""

    def __init__(self, config: ChangeKeys) -> None:
        self._channels: list[Channel] = []
        if config.signals_file:
            self._channels.append(SignalFile(config.signals_file, config.reach))
        if (topic := config.kafka_channel(config.topic_prefix)) is not None:
            self._channels.append(SignalTopic(topic))
        self._every = Every(config.signal_poll_interval_ms if self._channels else 0)
        self._is_first = bool(self._channels)
        self._failed: set[str] = set()

    def left(self) -> float:
        """Return the seconds until channels are to be looked at."""
        return self._every.left(time.monotonic())

    def is_due(self) -> bool:
        """Return whether channels are to be looked at now."""
        first, self._is_first = self._is_first, False
        return self._every.is_due(time.monotonic()) or first

    def poll(self, places: dict[str, Any]) -> tuple[list[Signal | ConfigError], bool]:
        """Return new signals, and whether a channel was read on.

        Args:
            places: How far each channel was read; moved on.
        """
        signals: list[Signal | ConfigError] = []
        moved = False
        for channel in self._channels:
            place = places.get(channel.name)
            try:
                found, after = channel.poll(place)
            except ConfigError as error:
                if channel.name not in self._failed:  # once, until it is read on
                    self._failed.add(channel.name)
                    _LOG.warning("%s", error)
                continue
            signals += map(_read, found)
            if after != place:
                self._failed.discard(channel.name)
                places[channel.name], moved = after, True
        return signals, moved

    def close(self) -> None:
        """Let go of what is open."""
        for channel in self._channels:
            channel.close()


def _read(row: Mapping[str, Any] | ConfigError) -> Signal | ConfigError:
    if isinstance(row, ConfigError):
        return row
    try:
        return read_signal(row)
    except ConfigError as error:
        return error
