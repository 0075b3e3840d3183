"""good.py with one thing done wrong: the one that the case named by the first word finds.

Each function here is a case's id with `_` for `.`, and breaks the SDK or a connector just so.
"""

import asyncio
import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3]))

import good
from google.protobuf.duration_pb2 import Duration

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.error.v1 import diagnostic_pb2
from penstock_connector import (
    ConnectorError,
    _calls,
    _connectors,
    _control,
    _credit,
    _encoder,
    _fencing,
    _frames,
    _handshake,
    _outbox,
    _pump,
    _reading,
    _serve,
    _server,
    _staging,
    _writing,
)
from penstock_connector._committer import Committer
from penstock_values import memory_files
from support import http2

KEPT = []
"""What a leak keeps."""


def after(owner, name, change):
    """Let `change(result, *arguments)` replace what a function returns."""
    kept = getattr(owner, name)

    def changed(*arguments, **more):
        return change(kept(*arguments, **more), *arguments)

    setattr(owner, name, changed)


def before(owner, name, first):
    """Let `first(*arguments)` happen before a function."""
    kept = getattr(owner, name)

    def changed(*arguments, **more):
        first(*arguments)
        return kept(*arguments, **more)

    setattr(owner, name, changed)


def replace(owner, name, other):
    """Put another function into the place of one."""
    setattr(owner, name, other)


async def never(*_):
    await asyncio.Event().wait()


# ── the process ──


def start_handshake():
    announce(lambda launch: print(launch.line() + "and ready", flush=True))


def start_once():
    announce(lambda launch: print(f"{launch.line()}\n{launch.line()}", flush=True))


def start_file():
    announce(lambda launch: print(launch.line(), flush=True))


def announce(say):
    replace(_handshake.Launch, "announce", say)


def start_cookie():
    if _handshake.COOKIE not in os.environ:
        sys.exit(0)


def start_version():
    if os.environ[_handshake.VERSIONS] != "1":
        sys.exit("no")


def start_health():
    kept = _server.health.aio.HealthServicer.set

    async def for_others(self, service, status):
        if service != "plugin":
            await kept(self, service, status)

    replace(_server.health.aio.HealthServicer, "set", for_others)


def start_authority():
    """Serve calls to the path of the socket, and reset those to localhost."""
    asyncio.run(http2.serve_as_plugin(lambda authority: authority != "localhost"))
    sys.exit()


def start_credential():
    async def let_in(_, continuation, details):
        return await continuation(details)

    replace(_calls.CredentialCheck, "intercept_service", let_in)


def describe_offline():
    async def fail(self, request, context):
        await _calls.fail(context, ConnectorError("rude.offline", "no network"))

    replace(_control.PluginService, "Describe", fail)


def describe_complete():
    def spoil(spec, _):
        spec.config_keys[0].type = "text"
        return spec

    after(_connectors, "spec_of", spoil)


def describe_stranger():
    replace_validation(lambda answer, *_: answer, pb.ValidateConfigResponse)


def end_stdin():
    replace(_serve, "_end_with_host", lambda _: None)


def end_shutdown():
    async def only_drain(self, grace):
        await self.drain(grace)

    replace(_server.PluginServer, "_shut_down", only_drain)


def end_sigterm():
    replace(
        _serve,
        "_end_on_signals",
        lambda server, hosted: asyncio.get_running_loop().add_signal_handler(15, int),
    )


def end_nothing_left():
    subprocess.Popen(
        ["sleep", "60"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


# ── any connector ──


def replace_validation(change, otherwise=None):
    kept = _control.ConnectorService._validate

    def validate(self, target):
        try:
            answer = kept(self, target)
        except ConnectorError:
            if otherwise is None:
                raise
            answer = otherwise()
        return change(answer, target)

    replace(_control.ConnectorService, "_validate", validate)


def find_nothing(answer, *_):
    del answer.diagnostics[:]
    for value in answer.values:
        del value.diagnostics[:]
    return answer


def config_valid():
    def find(answer, *_):
        answer.diagnostics.append(diagnostic_pb2.Diagnostic(code="rude.no", severity=3))
        return answer

    replace_validation(find)


def config_required():
    replace_validation(find_nothing)


config_unknown_key = config_wrong_type = config_wrong_value = config_required


def config_form():
    """Offer a value that is refused."""
    replace(good.Config, "key_hints", lambda values: {"batch.rows": good.KeyHint(("5", "0"))})


def hides_required():
    """Hide a key, and miss it."""
    replace(good.Config, "key_hints", lambda values: {"folder": good.KeyHint(visible=False)})


def drops_keys():
    """Leave keys that were not given out of the form."""

    def drop(answer, target):
        kept = [value for value in answer.values if value.name in target.config]
        del answer.values[:]
        answer.values.extend(kept)
        return answer

    replace_validation(drop)


def config_check():
    async def say_nothing(self, request, context):
        for _ in ():
            yield

    replace(_control.ConnectorService, "CheckConnection", say_nothing)


def config_check_fails():
    async def say_yes(self, request, context):
        yield pb.CheckConnectionResponse(step="all", ok=True)

    replace(_control.ConnectorService, "CheckConnection", say_yes)


def secrets_absent():
    before(_connectors, "parse_config", lambda _, values: print(values, file=sys.stderr))


# ── sources ──


def datasets_listed():
    def twice(found, *_):
        for dataset in found:
            yield dataset
            yield dataset

    after(_control, "_datasets", twice)


def plan_same():
    numbers = itertools.count()

    def renumber(answer, *_):
        answer.partitions[0].partition_id = json.dumps({"n": next(numbers)}, separators=(",", ":"))
        return answer

    after(_control.ConnectorService, "_plan", renumber)


def plan_refused():
    known = {"folder", "password", "batch.rows", "length"}

    def sift(kind, target, extra=()):
        values = {**target.config, "folder": target.config.get("folder", ".")}
        config = pb.Target(config={k: v for k, v in values.items() if k in known})
        return kept(kind, config, extra)

    kept = _connectors.configure
    for module in (_control, _writing):
        replace(module, "configure", sift)


open_refused = plan_refused


def parse_rows():
    def turned(answer, *_):
        return type(answer)(rows=answer.rows[1:] + answer.rows[:1])

    after(_reading, "parse_rows", turned)


def read_rows():
    after(good.Queue, "lines", lambda lines, _: lines[:-1])


def read_sequence():
    after_frame(
        "checkpoint", lambda frame: setattr(frame, "checkpoint_id", 2 * frame.checkpoint_id)
    )


def read_counts():
    after_frame("checkpoint", lambda frame: setattr(frame, "rows", frame.rows + 1))


def read_schema_first():
    kept = _outbox.Outbox.put
    replace(
        _outbox.Outbox,
        "put",
        lambda self, *frames: kept(self, *(f for f in frames if not f.HasField("schema"))),
    )


def read_partitions():
    after_frame("ready", lambda frame: setattr(frame, "partition_id", frame.partition_id + " "))


def read_bytes():
    after_frame("ready", lambda frame: setattr(frame, "bytes", frame.bytes // 2))


def after_frame(kind, change):
    """Change every frame of a kind on its way out."""

    def spoil(_, *frames):
        for frame in frames:
            if frame.HasField(kind):
                change(getattr(frame, kind))

    before(_outbox.Outbox, "put", spoil)


def read_end():
    after_frame("drained", lambda frame: setattr(frame, "checkpoint_id", 99))


def read_memory_files():
    memory_files.SMALLEST_BYTES = 0
    replace(_credit.Held, "close", lambda _: None)


def read_caught_up():
    replace(good.Queue, "caught_up", lambda _: True)


def read_values():
    after(
        good, "row_of", lambda row, _: {**row, "big": row["big"] and int(float(row["big"]) / 8) * 8}
    )


def read_follows():
    after(good.Queue, "lines", lambda lines, _: lines[:40])


def connecting(change):
    """Let a queue begin elsewhere than it was told."""
    after(good.Queue, "connect", lambda _, self, partitions: change(self, partitions[0].offset))


def resume_every_checkpoint():
    connecting(lambda self, offset: setattr(self, "next", self.next + bool(offset and self.next)))


def resume_beginning():
    begun = set()

    def go_on(self, offset):
        if str(self.place) in begun and offset is None:
            self.next = 3
        begun.add(str(self.place))

    connecting(go_on)


def resume_zero_rows():
    connecting(lambda self, offset: setattr(self, "next", self.next or int(offset is not None)))


def resume_crash():
    after_frame("checkpoint", lambda frame: [place_further(o) for o in frame.offsets.values()])


def place_further(offset):
    offset.fields["next"].int_value += 1


def commit_gated():
    def forget(batch, self):
        if batch is not None:
            good.swap(self.gone, str(self.next))
        return batch

    after(good.Queue, "read_batch", forget)


def commit_repeated():
    told = set()

    def refuse(pump, id_):
        if (pump.task_id, id_) in told:
            raise ConnectorError("rude.again", "that was said already")
        told.add((pump.task_id, id_))

    before(_pump.Pump, "committed", refuse)


def commit_confirmed():
    replace(_pump.Pump, "report", lambda self: types_pb2.Progress())


def credit_respected():
    replace(_credit.Window, "has_room", lambda _: True)


def limits_rows():
    before(_encoder.Encoder, "__init__", lambda _, partitions, limits: limits.Clear())


def limits_message():
    kept = _frames.fetch_frames

    def whole(head, rows, most):
        return kept(head, rows, 1 << 30)

    replace(_frames, "fetch_frames", whole)


limits_big_row = limits_message


def fetch_again():
    def only_once(found, window, seq):
        if (id(window), seq) in KEPT:
            return []
        KEPT.append((id(window), seq))
        return found

    after(_credit.Window, "frames", only_once)


def let_all_epochs():
    def find(self, task_id, epoch):
        return self._running[task_id]

    replace(_fencing.Owners, "find", find)
    replace(_fencing.Owners, "_refuse_older", lambda *_: None)


epoch_fetch = epoch_open_read = epoch_put = epoch_open_write = let_all_epochs


def take_over_nothing():
    replace(_fencing.Owners, "admit", lambda *_: None)
    replace(_fencing.Owners, "start", lambda self, id_, task: self._running.__setitem__(id_, task))


epoch_takeover_read = epoch_takeover_write = take_over_nothing


def tasks_several_read():
    good.Queue.next = property(lambda _: max(KEPT), lambda _, place: KEPT.append(place))


def refuse_unknown(*arguments):
    if arguments[-1].WhichOneof("kind") is None:
        raise ConnectorError("rude.unknown", "what is that?")


def frames_unknown_read():
    before(_reading, "_apply", refuse_unknown)


def frames_unknown_write():
    before(_writing, "_answer", refuse_unknown)


def heartbeat_read():
    after_frame("opened", lambda frame: frame.heartbeat_every.CopyFrom(Duration(seconds=1)))


def leak(*_):
    KEPT.append(os.open("/dev/null", os.O_RDONLY))


def host_lost_read():
    before(good.Queue, "connect", leak)


def host_lost_write():
    before(good.Shelf, "connect", leak)


def end_stdin_reading():
    replace(_reading.Reading, "drain", never)


# ── sinks ──


def open_mode():
    replace(_writing, "_mode", lambda kind, wanted: wanted)


def schema_unknown():
    class Any(dict):
        def get(self, id_):
            return super().get(id_) or next(iter(self.values()))

    kept = Committer.__init__

    def begin(self, *arguments, **more):
        kept(self, *arguments, **more)
        self._schemas = Any()

    replace(Committer, "__init__", begin)


def schema_grows():
    def refuse(self, dataset, schema, keys):
        if "one_more" in schema.names:
            raise ConnectorError("rude.column", "no more columns")

    before(good.Shelf, "apply_schema", refuse)


def columns_answered():
    async def see_nothing(self, request):
        return sink_pb.DatasetDescribed(request_id=request.request_id)

    replace(Committer, "describe", see_nothing)


def answering(which):
    """Answer only some batches of a put."""

    async def put_all(task, stage, context):
        chunks = _frames.Chunks()
        while (request := await _writing._read(context, sink_pb.PutRequest)) is not None:
            data = chunks.add(request.batch)
            if data is not None:
                result = await task.put(stage, request.batch, data)
                if which(request.batch):
                    await context.write(sink_pb.PutResponse(batch_result=result))
        await task.end_put(stage)

    replace(_writing, "_put_all", put_all)


def put_results():
    answering(lambda batch: batch.seq == 3)


def put_empty():
    answering(lambda batch: batch.rows)


def put_partial():
    replace(good, "refused_of", lambda rows: [])


def put_gap():
    before(Committer, "put", lambda _, stage, batch, __: setattr(stage, "last_seq", batch.seq - 1))


def put_chunked():
    replace(_frames.Chunks, "add", lambda _, batch: batch.data)


def put_memory_files():
    replace(_frames.Chunks, "add", lambda _, batch: batch.data)


def put_big_row():
    after(good.Rows, "put", cut_short)


def cut_short(refused, self, _):
    self.rows = [{**row, "text": row["text"] and row["text"][:1000]} for row in self.rows]
    return refused


def prepare_invisible():
    def show(state, self, *_):
        told = json.loads(state)
        hidden = self.place / f".{told['name']}-{told['epoch']}"
        (self.place / f"{told['name']}.rows").write_text(hidden.read_text())
        return state

    after(good.Shelf, "prepare", show)


def prepare_state():
    committer = sys.modules["penstock_connector._committer"]
    kept = committer.prepared_to_proto

    def swell(txn):
        message = kept(txn)
        message.state += b" " * (64 << 10)
        return message

    replace(committer, "prepared_to_proto", swell)


def count_nothing():
    replace(sys.modules["penstock_connector._committer"], "check_rows", lambda *_: 0)


def prepare_attempts():
    count_nothing()

    def all_of_them(self, txn_id, slots):
        return list(self._open[txn_id].values()), []

    replace(_staging.Stages, "named", all_of_them)


prepare_counts = count_nothing


def prepare_missing():
    prepare_attempts()


def commit_visible():
    after(
        good.Shelf,
        "commit",
        lambda done, self, *_: [drop_last(f) for f in self.place.glob("*.rows")] and done,
    )


def drop_last(file):
    file.write_text("".join(line + "\n" for line in file.read_text().splitlines()[:-1]))


def commit_order():
    def backwards(found, *_):
        return found[0][::-1], found[1]

    after(_staging.Stages, "named", backwards)


def commit_values():
    kept = good.plain
    replace(
        good, "plain", lambda value: float(value) if not hasattr(value, "year") else kept(value)
    )


def recover_prepared():
    replace(good.Shelf, "recover", lambda *_: None)


def recover_committed():
    def again(self, last):
        (self.place / f"again-{last.epoch}.rows").write_text(
            next(self.place.glob("*.rows")).read_text()
        )

    replace(good.Shelf, "recover", again)


def recover_forgotten():
    before(
        good.Shelf,
        "sweep",
        lambda self, _: [
            f.rename(self.place / f"{f.name[1:]}.rows") for f in self.place.glob(".*-*-*")
        ],
    )


def recover_token():
    def too_early(state, self, txn_id, epoch, *_):
        good.swap(self.place / "token", json.dumps([txn_id, epoch, json.loads(state)["token"]]))
        return state

    after(good.Till, "prepare", too_early)


def replay_harmless():
    def append(self, dataset, rows):
        for row in rows.to_pylist():
            good.write_rows(
                Path(self.config.folder) / f"{row['id']:06}-{id(rows)}-{os.urandom(3).hex()}.rows",
                [row],
            )

    replace(good.Keyed, "write_batch", append)


def epoch_zombie():
    def own_name(self, txn_id, epoch, state):
        told = json.loads(state)
        hidden = self.place / f".{told['name']}-{told['epoch']}"
        hidden.rename(self.place / f"{told['name']}-{epoch}.rows")

    replace(good.Shelf, "commit", own_name)
    replace(good.Shelf, "sweep", lambda *_: None)


def tasks_several_write():
    def first_place(self):
        KEPT.append(self.config.folder)
        return Path(KEPT[0])

    good.Shelf.place = property(first_place)


def close_answered():
    kept = _writing._answer

    async def without_close(task, request):
        return None if request.HasField("close") else await kept(task, request)

    replace(_writing, "_answer", without_close)


def end_stdin_writing():
    replace(_writing.Writing, "drain", never)


# ── what is not rude ──


def late_to_let_go():
    """Hold eight files until some time after the end, in every life but the first."""
    held = {}
    connect, close = good.Queue.connect, good.Queue.close
    lives = itertools.count()

    def open_files(self, partitions):
        files = 8 if next(lives) else 0
        held[self] = [os.open("/dev/null", os.O_RDONLY) for _ in range(files)]
        connect(self, partitions)

    def close_late(self):
        close(self)
        threading.Event().wait(0.3)
        for file in held.pop(self):
            os.close(file)

    replace(good.Queue, "connect", open_files)
    replace(good.Queue, "close", close_late)


def compresses_rows():
    def compressed(rows):
        options = good.pa.ipc.IpcWriteOptions(compression="zstd")
        sink = good.pa.BufferOutputStream()
        with good.pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
            writer.write_batch(rows)
        return sink.getvalue().slice(len(rows.schema.serialize()))

    replace(_frames, "encode_rows", compressed)


def deaf_to_prepare():
    """Answer all but Prepare, with a heartbeat every now and then."""
    kept = _writing._answer

    async def without_prepare(task, request):
        if request.HasField("prepare"):
            return sink_pb.WriteResponse(progress=types_pb2.Progress(lag_bytes=1))
        return await kept(task, request)

    replace(_writing, "_answer", without_prepare)


CASES = {name.replace("_", ".", 1): one for name, one in globals().items() if callable(one)}

if __name__ == "__main__":
    CASES[sys.argv.pop(1)]()
    good.serve(*good.CONNECTORS, name="good", version="1.0.0")
