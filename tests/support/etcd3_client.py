"""`etcd3`, a client of etcd that is not ours: what we put into etcd is read by it as by any other.

with etcd3_client(servers) as other:
    other.get("/penstock/default/cluster")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import etcd3

from support.etcd import EtcdServers


@contextmanager
def etcd3_client(servers: EtcdServers, authority: Path | None = None, **who: str) -> Iterator[Any]:
    """Yield a client of the first member: over TLS with an authority, as a user with a password."""
    host, _, port = servers.endpoints[0].rpartition(":")
    ca = None if authority is None else str(authority)
    with etcd3.client(host=host, port=int(port), ca_cert=ca, timeout=10, **who) as client:
        yield client
