"""Machines of a test: network namespaces on one bridge, which can be cut off and joined again.

Needs root and iproute2, as the test command's setup installs it.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self


class Network:
    """`with Network("a", "b") as network`: the test itself is at `network.home`."""

    def __init__(self, *hosts: str) -> None:
        """Prepare a machine for each name."""
        self._mark = secrets.token_hex(2)
        self._net = f"10.{77 + secrets.randbelow(100)}.{secrets.randbelow(250)}"
        self._hosts = {name: number for number, name in enumerate(hosts, 10)}
        self.home = f"{self._net}.1"

    def __enter__(self) -> Self:
        bridge = self._bridge
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{self.home}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for name in self._hosts:
            space, outside = self._space(name), self._outside(name)
            _ip("netns", "add", space)
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outside, "master", bridge)
            _ip("link", "set", outside, "up")
            _ip("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in self._hosts:
            _ip("netns", "del", self._space(name))
        _ip("link", "del", self._bridge)

    def address(self, host: str) -> str:
        """Return where a machine is."""
        return f"{self._net}.{self._hosts[host]}"

    def on(self, host: str) -> tuple[str, ...]:
        """Return what to put in front of a command, so that it runs on a machine."""
        return ("ip", "netns", "exec", self._space(host))

    @contextmanager
    def cut(self, host: str) -> Iterator[None]:
        """Cut a machine off: what it sends, and what is sent to it, is lost without a word."""
        _ip("link", "set", self._outside(host), "nomaster")
        try:
            yield
        finally:
            _ip("link", "set", self._outside(host), "master", self._bridge)

    @contextmanager
    def mute(self, host: str) -> Iterator[None]:
        """Lose what a machine sends; it still gets what others send, until they hear no answer."""
        space, lower = self._space(host), f"{self._net}.0/25"
        _ip("-n", space, "route", "add", "blackhole", lower)
        try:
            yield
        finally:
            _ip("-n", space, "route", "del", "blackhole", lower)

    @property
    def _bridge(self) -> str:
        return f"pst{self._mark}"

    def _space(self, host: str) -> str:
        return f"pst-{self._mark}-{host}"

    def _outside(self, host: str) -> str:
        return f"v{self._mark}{self._hosts[host]}"


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True, capture_output=True, text=True, timeout=60)
