//! `rust-file`: files of JSON lines, or of lines of text, exactly once, in the seven steps of connectors/TWO_PHASE_SINK.md.
//!
//! Beside the files of a folder is a hidden one for each connector and task:
//!
//!     <folder>/<task>-<transaction>.jsonl                         rows that are visible
//!     <folder>/.penstock-rust/<connector>/<task>/put-…            rows of one attempt at one slot
//!                                               /prepared-<epoch>-<transaction>
//!                                               /journal.json    the highest epoch, and what was applied last
//!                                               /lock            held while the journal and the files move

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use serde_json::json;
use tokio::sync::{mpsc, Notify};
use tokio::task::block_in_place;
use tokio::time::interval;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::connector::sink_service_server::SinkService;
use crate::connector::{self as pb, put_request, write_request, write_response, CommitMode};
use crate::error::{Diagnostic, ErrorClass};
use crate::record::{Batch, Op};
use crate::source::{stale, taken_over};
use crate::{defect, diagnostic, failure, rows, settings, Key, Settings};

pub const NAME: &str = "rust-file";
pub const KEYS: &[Key] = &[
    Key {
        name: "folder",
        kind: "file",
        default: None,
        choices: &[],
        documentation: "Folder of the files, one for each transaction. It is made where it is not there.",
    },
    Key {
        name: "format",
        kind: "enum",
        default: Some("jsonl"),
        choices: &["jsonl", "text"],
        documentation: "`jsonl`: an object of JSON for each row. `text`: the text of one column.",
    },
    Key {
        name: "text.column",
        kind: "string",
        default: Some("line"),
        choices: &[],
        documentation: "With `format=text`, the column that is the text.",
    },
];

const HIDDEN: &str = ".penstock-rust";
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// What is held of a batch that comes in chunks, as large as the largest batch of a host.
const LARGEST_BATCH: usize = 1 << 30;

/// The newest stream of each task, also of those that ended: their epochs count (R11).
#[derive(Default)]
pub struct Sinks {
    tasks: Mutex<HashMap<String, Arc<Task>>>,
}

struct Task {
    epoch: u64,
    name: String,
    folder: PathBuf,
    hidden: PathBuf,
    /// The column of lines of text; none for JSON.
    text_column: Option<String>,
    schemas: Mutex<HashMap<u32, Vec<u8>>>,
    parts: Mutex<HashMap<(u64, u32, u32), Part>>,
    names: AtomicU64,
    files: AtomicU64,
    taken_over: Notify,
    over: AtomicBool,
}

/// Rows of one attempt at a slot.
struct Part {
    path: PathBuf,
    rows: u64,
}

/// A transaction that is safe. These three numbers are the state that the host stores: names are made of them.
#[derive(Clone, Copy, PartialEq)]
struct Prepared {
    epoch: u64,
    txn: u64,
    rows: u64,
}

impl Prepared {
    fn to_state(self) -> Vec<u8> {
        json!({ "epoch": self.epoch, "txn": self.txn, "rows": self.rows }).to_string().into_bytes()
    }

    fn from_json(found: &serde_json::Value) -> Option<Self> {
        Some(Prepared { epoch: found["epoch"].as_u64()?, txn: found["txn"].as_u64()?, rows: found["rows"].as_u64()? })
    }
}

/// What a task remembers.
#[derive(Default)]
struct Journal {
    epoch: u64,
    applied: Option<Prepared>,
}

fn io_failure(what: &Path, error: &io::Error) -> Status {
    let message = format!("'{}': {error}", what.display());
    failure(
        ErrorClass::Retriable,
        "sink.folder.failed",
        message,
        "Make the folder writable for the user of the worker, and see that its disk has room.",
    )
}

/// A name of any text, that is a name of a file and means no other text.
fn file_name_of(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") }).collect()
}

/// What the connector owns beside its rows, of all its tasks.
fn hidden_of(settings: &Settings, instance: &str) -> PathBuf {
    Path::new(settings.text("folder")).join(HIDDEN).join(format!("c-{}", file_name_of(instance)))
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Remove what a connector that is deleted, or begins anew, staged: no task of it will ever open that again.
pub fn sweep(settings: &Settings, instance: &str) -> Result<Vec<String>, Status> {
    let hidden = hidden_of(settings, instance);
    if !hidden.exists() {
        return Ok(vec![]);
    }
    fs::remove_dir_all(&hidden).map_err(|error| io_failure(&hidden, &error))?;
    Ok(vec![format!("remove '{}'", hidden.display())])
}

/// Whether files can be made in the folder, or in the one that it will be made in.
pub fn check_folder(settings: &Settings) -> Result<(), Diagnostic> {
    let folder = Path::new(settings.text("folder"));
    let there = folder.ancestors().find(|one| one.exists()).unwrap_or(Path::new("."));
    let probe = there.join(format!(".penstock-probe-{}", std::process::id()));
    let tried = File::create(&probe).and_then(|_| fs::remove_file(&probe));
    tried.map_err(|error| {
        let message = format!("no file can be made in '{}': {error}", there.display());
        diagnostic(
            ErrorClass::Config,
            "sink.folder.unwritable",
            message,
            "Set 'folder' to one that the user of the worker may write to.",
        )
    })
}

impl Sinks {
    /// Steps 1 to 3: fence older owners, apply what the host stored, remove everything else that was staged.
    fn open(&self, open: &pb::WriteOpen) -> Result<Arc<Task>, Status> {
        let target = open.target.as_ref();
        let settings = settings(target, NAME)?;
        if open.commit_mode == CommitMode::Sink as i32 {
            return Err(failure(
                ErrorClass::Config,
                "sink.commit_mode",
                "the sink stores no offsets of its own",
                "Let the host choose the commit mode.",
            ));
        }
        let task_id = open.task.as_ref().map_or("", |plan| plan.task_id.as_str());
        let name = file_name_of(task_id);
        let hidden =
            hidden_of(&settings, target.map_or("", |target| target.instance.as_str())).join(format!("t-{name}"));
        let task = Arc::new(Task {
            epoch: open.epoch,
            name,
            folder: PathBuf::from(settings.text("folder")),
            hidden,
            text_column: (settings.text("format") == "text").then(|| settings.text("text.column").to_string()),
            schemas: Mutex::default(),
            parts: Mutex::default(),
            names: AtomicU64::new(0),
            files: AtomicU64::new(0),
            taken_over: Notify::new(),
            over: AtomicBool::new(false),
        });
        fs::create_dir_all(&task.hidden).map_err(|error| io_failure(&task.hidden, &error))?;
        let lock = task.lock()?;
        let mut journal = task.read_journal()?;
        if journal.epoch > task.epoch {
            return Err(stale(task.epoch));
        }
        journal.epoch = task.epoch;
        task.write_journal(&journal)?; // from here on no older owner commits, in whatever process
        if let Some(older) = self.tasks.lock().unwrap().insert(task_id.to_string(), task.clone()) {
            older.over.store(true, Ordering::SeqCst);
            older.taken_over.notify_one(); // R18
        }
        if let Some(last) = open.last_prepared.as_ref().filter(|last| open.recover && !last.state.is_empty()) {
            task.apply(read_state(&last.state)?, &mut journal)?;
        }
        task.sweep()?;
        drop(lock);
        Ok(task)
    }

    fn find(&self, ticket: &pb::PutOpen) -> Result<Arc<Task>, Status> {
        match self.tasks.lock().unwrap().get(&ticket.task_id) {
            Some(task) if task.epoch > ticket.epoch => Err(stale(ticket.epoch)),
            Some(task) if task.epoch == ticket.epoch && !task.over.load(Ordering::SeqCst) => Ok(task.clone()),
            _ => Err(failure(
                ErrorClass::Retriable,
                "task.not_open",
                format!("'{}' is not open here with epoch {}", ticket.task_id, ticket.epoch),
                "Open the task first.",
            )),
        }
    }
}

fn read_state(state: &[u8]) -> Result<Prepared, Status> {
    let found = serde_json::from_slice(state).ok().as_ref().and_then(Prepared::from_json);
    found.ok_or_else(|| defect("sink.state", "the prepared state is none of this sink"))
}

impl Task {
    /// One owner at a time moves files and the journal, over processes. The lock ends when the file is closed.
    fn lock(&self) -> Result<File, Status> {
        let path = self.hidden.join("lock");
        let file =
            OpenOptions::new().create(true).append(true).open(&path).map_err(|error| io_failure(&path, &error))?;
        file.lock().map_err(|error| io_failure(&path, &error))?;
        Ok(file)
    }

    fn read_journal(&self) -> Result<Journal, Status> {
        let path = self.hidden.join("journal.json");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Journal::default()),
            read => read.map_err(|error| io_failure(&path, &error))?,
        };
        let found: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| io_failure(&path, &error.into()))?;
        Ok(Journal { epoch: found["epoch"].as_u64().unwrap_or(0), applied: Prepared::from_json(&found["applied"]) })
    }

    /// It is there whole or not at all, also after a crash of the machine.
    fn write_journal(&self, journal: &Journal) -> Result<(), Status> {
        let (path, new) = (self.hidden.join("journal.json"), self.hidden.join("journal.new"));
        let applied = journal.applied.map(|one| json!({ "epoch": one.epoch, "txn": one.txn, "rows": one.rows }));
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(json!({ "epoch": journal.epoch, "applied": applied }).to_string().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            sync_folder(&self.hidden)
        };
        write().map_err(|error| io_failure(&path, &error))
    }

    fn prepared_path(&self, prepared: Prepared) -> PathBuf {
        self.hidden.join(format!("prepared-{}-{}", prepared.epoch, prepared.txn))
    }

    fn visible_path(&self, prepared: Prepared) -> PathBuf {
        let ending = if self.text_column.is_some() { "txt" } else { "jsonl" };
        self.folder.join(format!("{}-{:010}.{ending}", self.name, prepared.txn))
    }

    /// Make rows visible, once, however often it is asked for. The caller holds the lock.
    ///
    /// The journal says which transaction it is before the file moves. A staged file that is not there was moved, when the
    /// journal names it; the visible file proves nothing, since whoever reads the folder may take files away.
    fn apply(&self, prepared: Prepared, journal: &mut Journal) -> Result<(), Status> {
        if prepared.rows == 0 {
            return Ok(()); // there is no file
        }
        let staged = self.prepared_path(prepared);
        if staged.exists() {
            journal.applied = Some(prepared);
            self.write_journal(journal)?;
            let visible = self.visible_path(prepared);
            let done = fs::rename(&staged, &visible).and_then(|()| sync_folder(&self.folder));
            done.map_err(|error| io_failure(&visible, &error))?;
            self.files.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        if journal.applied == Some(prepared) {
            return Ok(());
        }
        let message = format!(
            "{} rows of transaction {} were staged in '{}', which is not there",
            prepared.rows,
            prepared.txn,
            staged.display()
        );
        Err(failure(
            ErrorClass::OffsetLost,
            "sink.staged.lost",
            message,
            "Put the file back, or reset the offsets of the connector to write its rows again.",
        ))
    }

    /// Remove what no host will ask for. The caller holds the lock.
    fn sweep(&self) -> Result<(), Status> {
        let sweep = || {
            for entry in fs::read_dir(&self.hidden)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("put-") || name.starts_with("prepared-") {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        sweep().map_err(|error| io_failure(&self.hidden, &error))
    }

    /// Take a schema, or say why not; the task goes on in any case.
    fn take_schema(&self, schema: crate::record::Schema) -> Result<pb::SchemaApplied, Status> {
        let found = rows::decode_schema(&schema.arrow_schema)
            .map_err(|error| defect("sink.schema.unreadable", error.to_string()))?;
        let answer = pb::SchemaApplied { schema_id: schema.schema_id, ..Default::default() };
        if let Some(why) = self.objection(&found) {
            let diagnostic = diagnostic(
                ErrorClass::Schema,
                "sink.schema.refused",
                why,
                "Change the column by a transform, or leave it out.",
            );
            return Ok(pb::SchemaApplied { refused: true, diagnostics: vec![diagnostic], ..answer });
        }
        self.schemas.lock().unwrap().insert(schema.schema_id, schema.arrow_schema);
        Ok(answer)
    }

    fn objection(&self, schema: &Schema) -> Option<String> {
        match &self.text_column {
            Some(name) => match schema.field_with_name(name).map(|field| field.data_type()) {
                Ok(DataType::Utf8 | DataType::LargeUtf8) => None,
                Ok(other) => Some(format!("column '{name}' is to be written as text, and is {other}")),
                Err(_) => Some(format!("there is no column '{name}', which is to be written as text")),
            },
            None => {
                schema.fields().iter().find(|field| !rows::is_reserved(field.name()) && !rows::has_json(field)).map(
                    |field| {
                        format!("column '{}' is {}, which has no form in JSON here", field.name(), field.data_type())
                    },
                )
            }
        }
    }

    /// Step 5: the attempts that count become one file, in the order of their slots. The others go.
    fn prepare(&self, order: &pb::WritePrepare) -> Result<Prepared, Status> {
        let mut slots = order.slots.clone();
        slots.sort_by_key(|slot| slot.slot);
        let mut parts = self.parts.lock().unwrap();
        let mut counted = Vec::new();
        for slot in slots {
            let key = (order.txn_id, slot.slot, slot.attempt);
            let rows = parts.get(&key).map(|part| part.rows);
            if rows.unwrap_or(0) != slot.rows {
                let found = rows.map_or("was never put".to_string(), |rows| format!("has {rows} rows here"));
                return Err(defect(
                    "sink.slot.rows_mismatch",
                    format!("slot {} attempt {} {found}, the host counted {} (R5)", slot.slot, slot.attempt, slot.rows),
                ));
            }
            counted.extend(parts.remove(&key));
        }
        let rows: u64 = counted.iter().map(|part| part.rows).sum();
        let prepared = Prepared { epoch: self.epoch, txn: order.txn_id, rows };
        let left = take_parts(&mut parts, order.txn_id);
        drop(parts);
        let path = self.prepared_path(prepared);
        self.join(&counted, &path, rows).map_err(|error| io_failure(&path, &error))?;
        left.iter().for_each(remove_part);
        Ok(prepared)
    }

    fn join(&self, parts: &[Part], path: &Path, rows: u64) -> io::Result<()> {
        let Some((first, rest)) = parts.split_first().filter(|_| rows > 0) else {
            parts.iter().for_each(remove_part);
            return Ok(());
        };
        let mut joined = OpenOptions::new().append(true).open(&first.path)?;
        for part in rest {
            io::copy(&mut File::open(&part.path)?, &mut joined)?;
            remove_part(part);
        }
        joined.sync_all()?;
        fs::rename(&first.path, path)?;
        sync_folder(&self.hidden)
    }

    /// Step 6. The epoch is compared where the rows become visible: an older owner may be in another process.
    fn commit(&self, prepared: Prepared) -> Result<pb::TxnCommitted, Status> {
        let _lock = self.lock()?;
        let mut journal = self.read_journal()?;
        if journal.epoch > self.epoch {
            return Err(stale(self.epoch));
        }
        self.apply(prepared, &mut journal)?;
        Ok(pb::TxnCommitted { txn_id: prepared.txn })
    }

    /// Write the rows of a batch into a file, and say which of them cannot be written.
    fn write_batch(&self, file: &mut File, batch: &Batch, data: &[u8]) -> Result<pb::BatchResult, Status> {
        let schema = self.schemas.lock().unwrap().get(&batch.schema_id).cloned();
        let schema = schema.ok_or_else(|| {
            defect("sink.schema.unknown", format!("schema {} was not sent before its rows", batch.schema_id))
        })?;
        let mut failed = Vec::new();
        if batch.rows > 0 || !data.is_empty() {
            let rows = rows::decode(&schema, data).map_err(|error| {
                defect("sink.batch.unreadable", format!("batch {} cannot be read: {error}", batch.seq))
            })?;
            if rows.num_rows() != batch.rows as usize {
                return Err(defect(
                    "sink.batch.rows_mismatch",
                    format!("batch {} says {} rows and has {}", batch.seq, batch.rows, rows.num_rows()),
                ));
            }
            let text = self.lines_of(&rows, &mut failed);
            file.write_all(&text).map_err(|error| io_failure(&self.hidden, &error))?;
        }
        Ok(pb::BatchResult { seq: batch.seq, all_ok: failed.is_empty(), failed })
    }

    fn lines_of(&self, rows: &RecordBatch, failed: &mut Vec<pb::RowError>) -> Vec<u8> {
        let text = self.text_column.as_ref().and_then(|name| rows.column_by_name(name));
        let ops = rows.column_by_name("__op").and_then(|column| column.as_primitive_opt::<Int8Type>());
        let mut lines = Vec::with_capacity(rows.get_array_memory_size());
        for row in 0..rows.num_rows() {
            let (begin, op) =
                (lines.len(), ops.filter(|ops| ops.is_valid(row)).map_or(0, |ops| i32::from(ops.value(row))));
            let written = match text {
                // in a file that only grows a delete would look like a new row
                _ if [Op::Delete as i32, Op::Truncate as i32].contains(&op) => {
                    Err("it deletes, and files that only grow have no place for that".to_string())
                }
                Some(column) => rows::write_text_line(&mut lines, column, row),
                None => rows::write_json_line(&mut lines, rows, row),
            };
            if let Err(why) = written {
                lines.truncate(begin);
                let reason = diagnostic(
                    ErrorClass::Data,
                    "sink.row.refused",
                    format!("the row cannot be written: {why}"),
                    "Change it by a transform, or send such rows to the dead letters.",
                );
                failed.push(pb::RowError { row: row as u32, reason: Some(reason) });
            }
        }
        lines
    }
}

fn take_parts(parts: &mut HashMap<(u64, u32, u32), Part>, txn: u64) -> Vec<Part> {
    parts.extract_if(|key, _| key.0 == txn).map(|(_, part)| part).collect()
}

fn remove_part(part: &Part) {
    let _ = fs::remove_file(&part.path); // what stays is swept by the next life
}

/// One Write stream.
struct Writer {
    task: Arc<Task>,
    host: mpsc::Sender<Result<pb::WriteResponse, Status>>,
    prepared: Option<Prepared>,
}

impl Writer {
    async fn send(&self, kind: write_response::Kind) -> Result<(), Status> {
        let frame = pb::WriteResponse { kind: Some(kind) };
        self.host.send(Ok(frame)).await.map_err(|_| Status::cancelled("the host hung up"))
    }

    async fn run(&mut self, mut frames: Streaming<pb::WriteRequest>) -> Result<(), Status> {
        self.send(write_response::Kind::Opened(pb::WriteOpened {
            commit_mode: CommitMode::TwoPhase as i32,
            limits: Some(pb::Limits { max_message_bytes: crate::LARGEST_MESSAGE as u64, ..Default::default() }),
            ..Default::default()
        }))
        .await?;
        let mut beat = interval(PROGRESS_EVERY);
        let task = self.task.clone();
        loop {
            tokio::select! {
                biased;
                _ = task.taken_over.notified() => return Err(taken_over()),
                frame = frames.message() => match frame? {
                    Some(pb::WriteRequest { kind: Some(write_request::Kind::Close(_)) }) => {
                        return self.send(write_response::Kind::Closed(pb::WriteClosed {})).await; // what is prepared stays (step 7)
                    }
                    Some(frame) => self.obey(frame.kind).await?,
                    None => return Ok(()),
                },
                _ = beat.tick() => self.report().await?,
            }
        }
    }

    /// Do what a frame says; frames of other kinds are ignored (R16).
    async fn obey(&mut self, frame: Option<write_request::Kind>) -> Result<(), Status> {
        match frame {
            Some(write_request::Kind::Schema(schema)) => {
                let applied = self.task.take_schema(schema)?;
                self.send(write_response::Kind::SchemaApplied(applied)).await
            }
            Some(write_request::Kind::Prepare(order)) => self.prepare(order).await,
            Some(write_request::Kind::Commit(order)) => {
                let prepared = self.prepared.filter(|one| one.txn == order.txn_id);
                let prepared = prepared.ok_or_else(|| {
                    defect("sink.txn.not_prepared", format!("transaction {} was not prepared", order.txn_id))
                })?;
                let committed = block_in_place(|| self.task.commit(prepared))?;
                self.send(write_response::Kind::TxnCommitted(committed)).await
            }
            _ => Ok(()),
        }
    }

    async fn prepare(&mut self, order: pb::WritePrepare) -> Result<(), Status> {
        let prepared = block_in_place(|| self.task.prepare(&order))?;
        self.prepared = Some(prepared);
        let txn = pb::PreparedTxn {
            txn_id: order.txn_id,
            epoch: self.task.epoch,
            state: prepared.to_state(),
            token: order.token,
        };
        self.send(write_response::Kind::Prepared(pb::Prepared { txn: Some(txn), ..Default::default() })).await
    }

    async fn report(&self) -> Result<(), Status> {
        let files = self.task.files.load(Ordering::Relaxed) as f64;
        let metrics = HashMap::from([("files_total".to_string(), files)]);
        self.send(write_response::Kind::Progress(pb::Progress {
            lag_records: -1,
            lag_bytes: -1,
            metrics,
            ..Default::default()
        }))
        .await
    }
}

/// One Put stream: it puts chunks together, and gives each batch exactly one result (R7).
struct Putter {
    task: Arc<Task>,
    key: (u64, u32, u32),
    path: PathBuf,
    file: File,
    seq: u64,
    chunk: u32,
    data: Vec<u8>,
}

impl Putter {
    fn new(task: Arc<Task>, ticket: &pb::PutOpen) -> Result<Self, Status> {
        let key = (ticket.txn_id, ticket.slot, ticket.attempt);
        let path = task.hidden.join(format!("put-{}-{}", task.epoch, task.names.fetch_add(1, Ordering::SeqCst)));
        let file = File::create_new(&path).map_err(|error| io_failure(&path, &error))?;
        let part = Part { path: path.clone(), rows: 0 };
        let older = task.parts.lock().unwrap().insert(key, part); // a Put of the same slot and attempt is replaced
        older.iter().for_each(remove_part);
        Ok(Putter { task, key, path, file, seq: 0, chunk: 0, data: Vec::new() })
    }

    async fn run(
        &mut self,
        mut frames: Streaming<pb::PutRequest>,
        results: &mpsc::Sender<Result<pb::PutResponse, Status>>,
    ) -> Result<(), Status> {
        while let Some(frame) = frames.message().await? {
            let Some(put_request::Kind::Batch(mut batch)) = frame.kind else { continue };
            if self.task.over.load(Ordering::SeqCst) {
                return Err(taken_over());
            }
            self.follow(&batch)?;
            self.data.append(&mut batch.data);
            if self.data.len() > LARGEST_BATCH {
                return Err(defect(
                    "sink.batch.too_large",
                    format!("batch {} has more than {LARGEST_BATCH} bytes", batch.seq),
                ));
            }
            if batch.more_chunks {
                self.chunk += 1;
                continue;
            }
            self.chunk = 0;
            let data = std::mem::take(&mut self.data);
            let result = block_in_place(|| self.task.write_batch(&mut self.file, &batch, &data))?;
            self.count(u64::from(batch.rows) - result.failed.len() as u64);
            if results.send(Ok(pb::PutResponse { batch_result: Some(result) })).await.is_err() {
                return Ok(()); // who put went away
            }
        }
        Ok(())
    }

    /// A batch follows the one before, a chunk the chunk before (R8).
    fn follow(&mut self, batch: &Batch) -> Result<(), Status> {
        let wanted = if self.chunk == 0 { self.seq + 1 } else { self.seq };
        if batch.seq != wanted || batch.chunk != self.chunk {
            return Err(defect(
                "sink.batch.gap",
                format!(
                    "batch {wanted} chunk {} was to follow, batch {} chunk {} came (R8)",
                    self.chunk, batch.seq, batch.chunk
                ),
            ));
        }
        self.seq = batch.seq;
        Ok(())
    }

    fn count(&self, rows: u64) {
        if let Some(part) = self.task.parts.lock().unwrap().get_mut(&self.key).filter(|part| part.path == self.path) {
            part.rows += rows;
        }
    }
}

#[tonic::async_trait]
impl SinkService for Sinks {
    type WriteStream = ReceiverStream<Result<pb::WriteResponse, Status>>;
    type PutStream = ReceiverStream<Result<pb::PutResponse, Status>>;

    async fn write(
        &self,
        request: Request<Streaming<pb::WriteRequest>>,
    ) -> Result<Response<Self::WriteStream>, Status> {
        let mut frames = request.into_inner();
        let first = frames.message().await?.and_then(|frame| frame.kind);
        let Some(write_request::Kind::Open(open)) = first else {
            return Err(defect("sink.not_opened", "the first frame of a Write stream must be open"));
        };
        let task = block_in_place(|| self.open(&open))?;
        let (host, receiver) = mpsc::channel(64);
        tokio::spawn(async move {
            let mut writer = Writer { task: task.clone(), host: host.clone(), prepared: None };
            let ended = writer.run(frames).await;
            task.over.store(true, Ordering::SeqCst);
            if let Err(status) = ended {
                let _ = host.send(Err(status)).await; // a host that hung up does not hear it
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn put(&self, request: Request<Streaming<pb::PutRequest>>) -> Result<Response<Self::PutStream>, Status> {
        let mut frames = request.into_inner();
        let first = frames.message().await?.and_then(|frame| frame.kind);
        let Some(put_request::Kind::Open(ticket)) = first else {
            return Err(defect("sink.not_opened", "the first frame of a Put stream must be open"));
        };
        let mut putter = block_in_place(|| Putter::new(self.find(&ticket)?, &ticket))?;
        let (sender, receiver) = mpsc::channel(16);
        tokio::spawn(async move {
            if let Err(status) = putter.run(frames, &sender).await {
                let _ = sender.send(Err(status)).await; // who put and went away does not hear it
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
