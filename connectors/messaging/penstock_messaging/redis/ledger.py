"""The ledger of a task, a hash: who may write for it, and its last transaction.

A transaction is one script. The server runs it alone: it looks whether the task is still ours,
and whether each key has the right type, and only then writes the rows and the ledger. A script that
the server refuses at its first write (no memory, a replica, no permission) has written nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock_connector import OffsetLostError, RetriableError
from penstock_connector.tables.ledger import LastTxn, TaskLedger
from penstock_messaging.redis.server import Redis

_CLAIM: Final = """
local stored = redis.call('HMGET', KEYS[1], 'epoch', 'txn', 'token', 'txn_epoch')
if stored[1] and tonumber(stored[1]) > tonumber(ARGV[1]) then
  return {'fenced', stored[1]}
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'owner', ARGV[2])
return {'claimed', stored[2] or '0', stored[3] or '', stored[4] or '0'}
"""

_COMMIT: Final = """
local stored = redis.call('HMGET', KEYS[1], 'epoch', 'owner', 'txn', 'txn_owner')
if not stored[2] then return {'gone'} end
if stored[2] ~= ARGV[2] then return {'fenced', stored[1]} end
if stored[3] == ARGV[3] and stored[4] == ARGV[2] then
  redis.call('HSET', KEYS[1], 'txn', ARGV[3])
  return {'committed'}
end
for at = 2, #KEYS do
  local kind = redis.call('TYPE', KEYS[at])['ok']
  if kind ~= 'none' and kind ~= ARGV[6] then return {'wrong_type', KEYS[at], kind} end
end
local command, most, at = ARGV[5], ARGV[7], 8
while at <= #ARGV do
  local key, set, removed = KEYS[tonumber(ARGV[at])], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  at = at + 3
  if set < 0 then
    redis.call('DEL', key)
  elseif command == 'XADD' then
    if most == '0' then
      redis.call('XADD', key, '*', unpack(ARGV, at, at + set - 1))
    else
      redis.call('XADD', key, 'MAXLEN', '~', most, '*', unpack(ARGV, at, at + set - 1))
    end
    at = at + set
  elseif command == 'SET' then
    redis.call('SET', key, ARGV[at])
    at = at + 1
  else
    if set > 0 then redis.call('HSET', key, unpack(ARGV, at, at + set - 1)) end
    at = at + set
    if removed > 0 then redis.call('HDEL', key, unpack(ARGV, at, at + removed - 1)) end
    at = at + removed
  end
end
redis.call('HSET', KEYS[1], 'txn', ARGV[3], 'token', ARGV[4], 'txn_epoch', ARGV[1],
  'txn_owner', ARGV[2])
return {'committed'}
"""

_TOUCH: Final = """
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'owner', ARGV[1])
end
"""

_PROBE: Final = """
local command = ARGV[1]
redis.call('TYPE', KEYS[1])
if command == 'XADD' then
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', '1', '*', 'a', 'b')
elseif command == 'SET' then
  redis.call('SET', KEYS[1], 'a')
else
  redis.call('HSET', KEYS[1], 'a', 'b')
  redis.call('HDEL', KEYS[1], 'a')
end
redis.call('DEL', KEYS[1])
"""


@dataclass(frozen=True, slots=True)
class WrongType:
    """A key that has a value of another type: the transaction was not written."""

    key: bytes
    type: str


class Ledger(TaskLedger):
    """The hash of one task, as one run of it sees it.

    Attributes:
        name: The key of the hash.
        last: The last transaction that it has.
    """

    def __init__(self, redis: Redis, prefix: str, task_id: str, epoch: int, where: str) -> None:
        super().__init__(task_id, epoch, "redis.fenced")
        self._redis, self._where = redis, where
        self.name = f"{prefix}{task_id}".encode()
        self.last = LastTxn()
        self._owner = secrets.token_hex(8)
        """Of this run: a command of an earlier one of the same epoch may still be on its way."""

    def require_permissions(self, command: str) -> None:
        """Run the commands of a transaction on a key beside the ledger, and remove it: none may be
        refused in the middle of one.
        """
        self._redis.again(lambda: self._run(_PROBE, [self.name + b":probe"], [command]))

    def claim(self) -> LastTxn:
        """Become the owner of the task, and see how far it came.

        Raises:
            FencedError: `redis.fenced`: a newer owner was there.
        """
        told = self._redis.again(
            lambda: self._run(_CLAIM, [self.name], [str(self._epoch), self._owner])
        )
        if told[0] == b"fenced":
            self.refuse_newer(int(told[1]))
        _, txn, token, epoch = told
        self.last = LastTxn(int(epoch), int(txn), token)
        return self.last

    def commit(
        self,
        last: LastTxn,
        keys: Sequence[bytes],
        how: Sequence[Any],
        rows: Callable[[], Sequence[Any]],
    ) -> WrongType | None:
        """Write rows and the ledger, both or neither. May be called again.

        Args:
            last: What the ledger has then.
            keys: The keys of the rows.
            how: Command, type of its keys, and how long a stream may be.
            rows: Returns the arguments of all rows.

        Raises:
            FencedError: `redis.fenced`: a newer owner was there.
            OffsetLostError: `redis.ledger_lost`.
        """
        head = [str(last.epoch), self._owner, str(last.txn_id), last.token, *how]
        told = self._redis.again(lambda: self._run(_COMMIT, [self.name, *keys], [*head, *rows()]))
        match told[0]:
            case b"gone":
                raise self.lost(self.last.txn_id)
            case b"fenced":
                raise self._fenced(int(told[1]))
            case b"wrong_type":
                return WrongType(told[1], told[2].decode())
        self.last = last
        return None

    def lost(self, txn_id: int) -> OffsetLostError:
        """Return what is said of a server that has nothing of a task that wrote before."""
        return OffsetLostError(
            "redis.ledger_lost",
            f"{self._where} has no ledger {self.name.decode(errors='replace')!r}, and transaction "
            f"{txn_id} of the task was written: the server lost its data, or it is another one",
            fix="Restore the server, or reset the offsets to write all rows again, or set "
            "`redis.ledger.lost=continue` to go on with those that come.",
            config_path="redis.ledger.lost",
        )

    def wait_for_replicas(self, count: int, timeout_ms: int) -> None:
        """Wait until replicas have what was written.

        Raises:
            RetriableError: `redis.replicas`.
        """
        # WAIT is about what its own connection wrote: a new one would wait for nothing
        touch = ("EVAL", _TOUCH, 1, self.name, self._owner)
        reached = int(self._redis.ask_all([touch, ("WAIT", count, timeout_ms)])[1])
        if reached < count:
            raise RetriableError(
                "redis.replicas",
                f"{reached} replicas of {self._where} have the rows, and `redis.wait.replicas` is "
                f"{count}",
                fix="Start the replicas, or lower `redis.wait.replicas`.",
                config_path="redis.wait.replicas",
            )

    def _run(self, script: str, keys: Sequence[bytes], arguments: Sequence[Any]) -> Any:
        return self._redis.ask_once("EVAL", script, len(keys), *keys, *arguments)
