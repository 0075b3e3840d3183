//! `rust-lines`: the lines of a text file. One Read stream is one task; rows go over Fetch, to whoever asks for the batches that
//! Read announced. The rules R1 to R20 that are named here are those of proto/README.md.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::builder::{ArrayBuilder, StringBuilder};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use tokio::sync::{mpsc, Notify};
use tokio::time::{interval, MissedTickBehavior};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::connector::source_service_server::SourceService;
use crate::connector::{self as pb, read_request, read_response};
use crate::error::ErrorClass;
use crate::record::{value, Batch, Encoding, Offset, Partition, Value};
use crate::{defect, diagnostic, failure, rows, settings, Key, Settings};

pub const NAME: &str = "rust-lines";
pub const KEYS: &[Key] = &[
    Key { name: "file", kind: "file", default: None, choices: &[], documentation: "The text file, in UTF-8." },
    Key {
        name: "tail",
        kind: "boolean",
        default: Some("false"),
        choices: &[],
        documentation: "Go on at the end of the file and wait for more lines. Without it the source ends there.",
    },
    Key {
        name: "batch.rows",
        kind: "int",
        default: Some("10000"),
        choices: &[],
        documentation: "Lines to give at once, at most.",
    },
];

const HEARTBEAT: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A longer line ends the task: it would have to be held in memory, and the host takes no batch of more than 1 GiB.
const LONGEST_LINE: u64 = 256 << 20;
/// Rows that could not be read take no credit, so this bounds how many come at once.
const MOST_BAD_ROWS: usize = 1000;
/// What a message has beside the rows and the name of the partition.
const MESSAGE_OVERHEAD: usize = 256;

/// The newest stream of each task, also of those that ended: their epochs count (R11).
#[derive(Default)]
pub struct Sources {
    tasks: Mutex<HashMap<String, Arc<Task>>>,
}

struct Task {
    epoch: u64,
    /// Batches that can be fetched, until they are released (R2).
    held: Mutex<BTreeMap<u64, Arc<Held>>>,
    taken_over: Notify,
    drain: Notify,
}

struct Held {
    batch: Batch,
    data: Vec<u8>,
    largest_chunk: usize,
}

impl Sources {
    /// End all tasks in order: the process is asked to end.
    pub fn drain(&self) {
        for task in self.tasks.lock().unwrap().values() {
            task.drain.notify_one();
        }
    }

    /// Fence older owners of the task, and say where reading begins.
    fn open(&self, open: pb::ReadOpen) -> Result<Reader, Status> {
        let settings = settings(open.target.as_ref(), NAME)?;
        if !open.encodings.contains(&(Encoding::ArrowIpc as i32)) {
            return Err(defect("source.encoding", "the host takes no Arrow, and this source has nothing else"));
        }
        let plan = open.task.unwrap_or_default();
        let [partition] = plan.partitions.as_slice() else {
            return Err(defect(
                "source.partitions",
                format!("a task has one partition, not {}", plan.partitions.len()),
            ));
        };
        let reader = Reader::new(&settings, partition, open.limits.unwrap_or_default(), open.epoch)?;
        let mut tasks = self.tasks.lock().unwrap();
        if let Some(older) = tasks.get(&plan.task_id) {
            if older.epoch > open.epoch {
                return Err(stale(open.epoch));
            }
            older.taken_over.notify_one(); // R18
        }
        tasks.insert(plan.task_id, reader.task.clone());
        Ok(reader)
    }
}

pub fn stale(epoch: u64) -> Status {
    failure(
        ErrorClass::Fenced,
        "task.stale_epoch",
        format!("epoch {epoch} is over"),
        "A newer owner has the task; nothing is to do.",
    )
}

pub fn taken_over() -> Status {
    failure(
        ErrorClass::Fenced,
        "task.taken_over",
        "the task was opened again".to_string(),
        "A newer owner has the task; nothing is to do.",
    )
}

/// The one partition of a file, named by the canonical JSON of its key.
pub fn partition(settings: &Settings) -> Partition {
    let file = settings.text("file");
    Partition {
        partition_id: serde_json::json!({ "file": file }).to_string(),
        key: HashMap::from([("file".to_string(), Value { kind: Some(value::Kind::StringValue(file.to_string())) })]),
        weight: 1.0,
        bounded: !settings.is_true("tail"),
        ..Default::default()
    }
}

/// One task: a place in a file, and what the host ordered.
struct Reader {
    task: Arc<Task>,
    schema: Arc<Schema>,
    partition_id: String,
    path: String,
    file: BufReader<File>,
    position: u64,
    tail: bool,
    most_rows: usize,
    target_bytes: usize,
    largest_chunk: usize,
    room: i64,
    seq: u64,
    checkpoint: u64,
    committed: u64,
    rows_total: u64,
    at_end: bool,
    drained: bool,
}

impl Reader {
    fn new(settings: &Settings, partition: &Partition, limits: pb::Limits, epoch: u64) -> Result<Self, Status> {
        let path = settings.text("file").to_string();
        let position = match partition.offset.as_ref().and_then(|offset| offset.fields.get("position")) {
            Some(Value { kind: Some(value::Kind::IntValue(position)) }) => u64::try_from(*position).unwrap_or(0),
            _ => 0,
        };
        let mut file = File::open(&path).map_err(|error| missing(&path, &error))?;
        expect_length(&path, &file, position)?;
        file.seek(SeekFrom::Start(position)).map_err(|error| missing(&path, &error))?;
        let message = if limits.max_message_bytes == 0 { 4 << 20 } else { limits.max_message_bytes as usize };
        let target = if limits.target_batch_bytes == 0 { 4 << 20 } else { limits.target_batch_bytes as usize };
        let most = if limits.max_batch_rows == 0 { 1 << 20 } else { limits.max_batch_rows as usize };
        Ok(Reader {
            task: Arc::new(Task { epoch, held: Mutex::default(), taken_over: Notify::new(), drain: Notify::new() }),
            schema: Arc::new(Schema::new(vec![Field::new("line", DataType::Utf8, false)])),
            partition_id: partition.partition_id.clone(),
            file: BufReader::with_capacity(1 << 20, file),
            path,
            position,
            tail: settings.is_true("tail"),
            most_rows: most.min(settings.number("batch.rows")).max(1),
            target_bytes: target.min(message / 2), // R10: cut by rows first, into chunks only where one line is that long
            largest_chunk: message.saturating_sub(MESSAGE_OVERHEAD + partition.partition_id.len()).max(1),
            room: 0,
            seq: 0,
            checkpoint: 0,
            committed: 0,
            rows_total: 0,
            at_end: false,
            drained: false,
        })
    }

    /// Live until the host has all that it was told of, hangs up, or another owner opens the task.
    async fn run(
        mut self,
        credit: Option<pb::Credit>,
        mut frames: Streaming<pb::ReadRequest>,
        host: Host,
    ) -> Result<(), Status> {
        host.send(read_response::Kind::Opened(pb::ReadOpened {
            encoding: Encoding::ArrowIpc as i32,
            heartbeat_every: Some(prost_types::Duration { seconds: HEARTBEAT.as_secs() as i64, nanos: 0 }),
            confirms_commits: true,
            ..Default::default()
        }))
        .await?;
        host.send(read_response::Kind::Schema(crate::record::Schema {
            schema_id: 1,
            dataset: "lines".to_string(),
            arrow_schema: rows::encode_schema(&self.schema)
                .map_err(|error| defect("source.arrow", error.to_string()))?,
            ..Default::default()
        }))
        .await?;
        self.room = credit.map_or(0, |credit| credit.bytes as i64);
        let mut beat = interval(HEARTBEAT / 2);
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.drained || !self.task.held.lock().unwrap().is_empty() {
            let task = self.task.clone();
            let may_read = !self.drained && !self.at_end && self.room > 0; // one batch may overdraw (R9)
            tokio::select! {
                biased; // what the host says comes first: one batch, then the next frame
                _ = task.taken_over.notified() => return Err(taken_over()),
                _ = task.drain.notified() => self.finish(&host).await?,
                frame = frames.message() => match frame? {
                    Some(frame) => self.obey(frame.kind),
                    None => return Ok(()), // the host hung up
                },
                _ = beat.tick() => self.report(&host).await?,
                _ = look.tick(), if self.at_end && !self.drained => self.at_end = false,
                _ = std::future::ready(()), if may_read => self.read(&host).await?,
            }
        }
        Ok(())
    }

    /// Do what a frame says; frames of other kinds are ignored (R16).
    fn obey(&mut self, frame: Option<read_request::Kind>) {
        match frame {
            Some(read_request::Kind::Release(release)) => self.release(release.seq),
            Some(read_request::Kind::Committed(committed)) => {
                self.committed = self.committed.max(committed.checkpoint_id)
            } // cumulative (R2)
            _ => {}
        }
    }

    fn release(&mut self, last: u64) {
        let mut held = self.task.held.lock().unwrap();
        let kept = held.split_off(&last.saturating_add(1));
        self.room += held.values().map(|one| one.data.len() as i64).sum::<i64>();
        *held = kept;
    }

    /// Announce one batch, and a place to commit after it. An offset is the byte at which the next line begins.
    async fn read(&mut self, host: &Host) -> Result<(), Status> {
        let (lines, bad) = tokio::task::block_in_place(|| self.cut())?;
        let rows = lines.num_rows() as u32;
        if rows > 0 {
            let data = rows::encode(&lines).map_err(|error| defect("source.arrow", error.to_string()))?;
            self.seq += 1;
            self.room -= data.len() as i64;
            let ready = pb::BatchReady {
                seq: self.seq,
                schema_id: 1,
                partition_id: self.partition_id.clone(),
                rows,
                bytes: data.len() as u64,
            };
            self.hold(data, rows);
            host.send(read_response::Kind::Ready(ready)).await?;
        }
        let with_rows = rows > 0 || !bad.is_empty();
        for row in bad {
            host.send(read_response::Kind::BadRow(row)).await?;
        }
        if with_rows {
            self.checkpoint += 1;
            self.rows_total += u64::from(rows);
            host.send(read_response::Kind::Checkpoint(pb::Checkpoint {
                checkpoint_id: self.checkpoint,
                offsets: HashMap::from([(self.partition_id.clone(), offset(self.position))]),
                rows: u64::from(rows),
                last_seq: self.seq,
                ..Default::default()
            }))
            .await?;
        }
        if self.at_end && !self.tail {
            let done = pb::PartitionDone { partition_id: self.partition_id.clone() };
            host.send(read_response::Kind::PartitionDone(done)).await?;
            self.finish(host).await?;
        }
        Ok(())
    }

    fn hold(&self, data: Vec<u8>, rows: u32) {
        let batch = Batch {
            seq: self.seq,
            schema_id: 1,
            rows,
            encoding: Encoding::ArrowIpc as i32,
            ..Default::default()
        };
        let held = Held { batch, data, largest_chunk: self.largest_chunk };
        self.task.held.lock().unwrap().insert(self.seq, Arc::new(held));
    }

    /// Take lines from the file, as many as make a batch. Lines that are no UTF-8 are apart: the host sends them to the dead letters.
    fn cut(&mut self) -> Result<(RecordBatch, Vec<pb::BadRow>), Status> {
        let (mut lines, mut bad, mut line) = (StringBuilder::new(), Vec::new(), Vec::new());
        let mut bytes = 0;
        while lines.len() < self.most_rows && bytes < self.target_bytes && bad.len() < MOST_BAD_ROWS {
            line.clear();
            let taken = (&mut self.file)
                .take(LONGEST_LINE + 1)
                .read_until(b'\n', &mut line)
                .map_err(|error| missing(&self.path, &error))? as u64;
            let whole = line.pop_if(|last| *last == b'\n').is_some();
            if taken > LONGEST_LINE {
                return Err(self.too_long());
            }
            if taken == 0 || (!whole && self.tail) {
                self.reach_end()?; // a part of a line is left until the rest of it is there
                break;
            }
            match std::str::from_utf8(&line) {
                Ok(text) => lines.append_value(text),
                Err(_) => bad.push(self.bad_row(std::mem::take(&mut line))),
            }
            self.position += taken;
            bytes += line.len() + 4; // an offset of Arrow beside the text
        }
        let column: Arc<dyn Array> = Arc::new(lines.finish());
        let batch = RecordBatch::try_new(self.schema.clone(), vec![column])
            .map_err(|error| defect("source.arrow", error.to_string()))?;
        Ok((batch, bad))
    }

    fn reach_end(&mut self) -> Result<(), Status> {
        self.at_end = true;
        expect_length(&self.path, self.file.get_ref(), self.position)?;
        self.file.seek(SeekFrom::Start(self.position)).map_err(|error| missing(&self.path, &error))?;
        Ok(())
    }

    fn bad_row(&self, raw: Vec<u8>) -> pb::BadRow {
        let message = format!("the line at byte {} of '{}' is not UTF-8", self.position, self.path);
        pb::BadRow {
            partition_id: self.partition_id.clone(),
            raw,
            reason: Some(diagnostic(ErrorClass::Data, "source.line.not_utf8", message, "Write the file in UTF-8.")),
            offset: Some(offset(self.position)),
            dataset: "lines".to_string(),
        }
    }

    fn too_long(&self) -> Status {
        let message =
            format!("the line at byte {} of '{}' has more than {LONGEST_LINE} bytes", self.position, self.path);
        failure(ErrorClass::Config, "source.line.too_long", message, "Cut the line, or leave this file out.")
    }

    async fn report(&self, host: &Host) -> Result<(), Status> {
        if self.drained {
            return Ok(()); // Drained was the last frame
        }
        let length = self.file.get_ref().metadata().map_or(0, |found| found.len());
        host.send(read_response::Kind::Progress(pb::Progress {
            lag_records: -1,
            lag_bytes: length as i64 - self.position as i64,
            metrics: HashMap::from([("lines_total".to_string(), self.rows_total as f64)]),
            committed_checkpoint_id: self.committed,
        }))
        .await
    }

    /// Say that nothing follows. The batches stay until they are released.
    async fn finish(&mut self, host: &Host) -> Result<(), Status> {
        if self.drained {
            return Ok(());
        }
        self.report(host).await?;
        self.drained = true;
        host.send(read_response::Kind::Drained(pb::Drained { checkpoint_id: self.checkpoint })).await
    }
}

fn offset(position: u64) -> Offset {
    let value = Value { kind: Some(value::Kind::IntValue(position as i64)) };
    Offset { fields: HashMap::from([("position".to_string(), value)]), ..Default::default() }
}

fn missing(path: &str, error: &std::io::Error) -> Status {
    failure(
        ErrorClass::Retriable,
        "source.file.unreadable",
        format!("'{path}' cannot be read: {error}"),
        "Make the file readable for the user of the worker.",
    )
}

/// A file that is shorter than what was read of it is another file: to go on in it would skip lines silently.
fn expect_length(path: &str, file: &File, position: u64) -> Result<(), Status> {
    let length = file.metadata().map_err(|error| missing(path, &error))?.len();
    if length >= position {
        return Ok(());
    }
    let message = format!("'{path}' has {length} bytes, and was read up to byte {position}");
    Err(failure(
        ErrorClass::OffsetLost,
        "source.file.shrunk",
        message,
        "Put the file back, or reset the offsets of the connector to read this one from its beginning.",
    ))
}

/// The way to the host. What it does not read fills the channel, which stops the task.
struct Host(mpsc::Sender<Result<pb::ReadResponse, Status>>);

impl Host {
    async fn send(&self, kind: read_response::Kind) -> Result<(), Status> {
        let frame = pb::ReadResponse { kind: Some(kind) };
        self.0.send(Ok(frame)).await.map_err(|_| Status::cancelled("the host hung up"))
    }
}

#[tonic::async_trait]
impl SourceService for Sources {
    type ReadStream = ReceiverStream<Result<pb::ReadResponse, Status>>;
    type FetchStream = ReceiverStream<Result<pb::FetchResponse, Status>>;

    async fn read(&self, request: Request<Streaming<pb::ReadRequest>>) -> Result<Response<Self::ReadStream>, Status> {
        let mut frames = request.into_inner();
        let first = frames.message().await?.and_then(|frame| frame.kind);
        let Some(read_request::Kind::Open(mut open)) = first else {
            return Err(defect("source.not_opened", "the first frame of a Read stream must be open"));
        };
        let credit = open.credit.take();
        let reader = self.open(open)?;
        let (sender, receiver) = mpsc::channel(64);
        tokio::spawn(async move {
            let task = reader.task.clone();
            let ended = reader.run(credit, frames, Host(sender.clone())).await;
            task.held.lock().unwrap().clear();
            if let Err(status) = ended {
                let _ = sender.send(Err(status)).await; // a host that hung up does not hear it
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn parse_rows(
        &self,
        _: Request<pb::ParseRowsRequest>,
    ) -> Result<Response<pb::ParseRowsResponse>, Status> {
        Err(Status::unimplemented("every line can be read"))
    }

    async fn fetch(&self, request: Request<pb::FetchRequest>) -> Result<Response<Self::FetchStream>, Status> {
        let ticket = request.into_inner();
        let task = self.tasks.lock().unwrap().get(&ticket.task_id).cloned();
        let task = match task {
            Some(task) if task.epoch == ticket.epoch => task,
            Some(task) if task.epoch > ticket.epoch => return Err(stale(ticket.epoch)),
            _ => {
                return Err(failure(
                    ErrorClass::Retriable,
                    "task.not_open",
                    format!("'{}' is not open here with epoch {}", ticket.task_id, ticket.epoch),
                    "Open the task first.",
                ))
            }
        };
        let find = |seq: u64| {
            let found = task.held.lock().unwrap().get(&seq).cloned();
            found.ok_or_else(|| {
                failure(
                    ErrorClass::Retriable,
                    "source.batch.released",
                    format!("batch {seq} was not announced, or is released"),
                    "Ask for batches that are announced and not released.",
                )
            })
        };
        let batches: Vec<Arc<Held>> = if ticket.seqs.is_empty() {
            (ticket.from_seq..=ticket.to_seq).map(find).collect::<Result<_, _>>()?
        } else {
            ticket.seqs.into_iter().map(find).collect::<Result<_, _>>()?
        };
        let (sender, receiver) = mpsc::channel(2);
        tokio::spawn(async move {
            for held in batches {
                for (number, chunk) in held.data.chunks(held.largest_chunk).enumerate() {
                    let more = (number + 1) * held.largest_chunk < held.data.len();
                    let data = chunk.to_vec();
                    let batch = Batch { chunk: number as u32, more_chunks: more, data, ..held.batch.clone() };
                    if sender.send(Ok(pb::FetchResponse { batch: Some(batch) })).await.is_err() {
                        return; // who fetched went away
                    }
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
