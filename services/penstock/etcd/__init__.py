"""etcd: who is there, who leads, and for how long that may be believed.

The client, from the bottom up:

- `settings`    where etcd is, TLS, user, and the times that everything waits
- `errors`      what a failed call means, and etcd's errors as coded ones
- `methods`     etcd's methods by path; the messages are `penstock.api.etcd.v3`
- `channel`     one channel at a time, to one of several members
- `calls`       deadlines, attempts at one member after the other, tokens
- `ops`         conditions and operations of transactions, and what is read
- `watch`       a watch that resumes, and says when it cannot
- `client`      `Etcd`: all of it together

What it is for:

- `lease`       a time that its holder gives up before etcd does (self-fencing)
- `election`    one leader, and its fencing token
- `snapshots`   state as lists at a revision; watches are hints (invariant 7)
- `membership`  being a member, again after every loss
- `discovery`   finding the members
- `identity`    noticing two clusters with one name

README.md says why the client is our own.
"""

from penstock.etcd.client import Etcd
from penstock.etcd.discovery import Discovery, Members
from penstock.etcd.election import Election, Leader, Leadership
from penstock.etcd.errors import CompactedError, OutcomeUnknownError
from penstock.etcd.identity import claim, settle, verify
from penstock.etcd.lease import Lease
from penstock.etcd.membership import Member, Membership, Registration
from penstock.etcd.ops import Done, Found, Kv
from penstock.etcd.settings import EtcdSettings, Tls
from penstock.etcd.snapshots import hints
from penstock.etcd.watch import Events

__all__ = [
    "CompactedError",
    "Discovery",
    "Done",
    "Election",
    "Etcd",
    "EtcdSettings",
    "Events",
    "Found",
    "Kv",
    "Leader",
    "Leadership",
    "Lease",
    "Member",
    "Members",
    "Membership",
    "OutcomeUnknownError",
    "Registration",
    "Tls",
    "claim",
    "hints",
    "settle",
    "verify",
]
