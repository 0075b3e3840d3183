//! A plugin for Penstock in Rust, without an SDK: `rust-lines` reads the lines of a file, `rust-file` writes files, exactly once.
//! This file is the process around them: handshake, descriptions, configuration, errors, end.
#![allow(clippy::result_large_err)] // `Status` is what every call fails with

mod rows;
mod sink;
mod source;

/// What `build.rs` makes of `proto/`.
mod protocol {
    include!(concat!(env!("OUT_DIR"), "/protocol.rs"));
}

use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::exit;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::service::interceptor::InterceptedService;
use tonic::{Code, Request, Response, Status};

use connector::connector_service_server::{ConnectorService, ConnectorServiceServer};
use connector::plugin_service_server::{PluginService, PluginServiceServer};
use connector::sink_service_server::SinkServiceServer;
use connector::source_service_server::SourceServiceServer;
use error::{Diagnostic, ErrorClass, Severity};
use protocol::penstock::api::connector::v1 as connector;
use protocol::penstock::api::error::v1 as error;
use protocol::penstock::api::record::v1 as record;

pub const LARGEST_MESSAGE: usize = 64 << 20;
const PROTOCOL_VERSION: &str = "1";
const LINGER: Duration = Duration::from_millis(500);

pub fn diagnostic(class: ErrorClass, code: &str, message: impl Into<String>, fix: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error as i32,
        error_class: class as i32,
        code: code.to_string(),
        message: message.into(),
        fix: fix.to_string(),
        ..Default::default()
    }
}

/// How a call fails: a status, and the diagnostic in its trailer. The class decides what the host does.
pub fn failure(class: ErrorClass, code: &str, message: impl Into<String>, fix: &str) -> Status {
    let diagnostic = diagnostic(class, code, message, fix);
    let status = match class {
        ErrorClass::Config => Code::InvalidArgument,
        ErrorClass::Auth => Code::Unauthenticated,
        ErrorClass::Retriable => Code::Unavailable,
        ErrorClass::Fenced => Code::Aborted,
        _ => Code::Internal,
    };
    let mut trailer = MetadataMap::new();
    trailer.insert_bin("penstock-diagnostic-bin", MetadataValue::from_bytes(&diagnostic.encode_to_vec()));
    Status::with_metadata(status, format!("[{code}] {}", diagnostic.message), trailer)
}

/// Somebody broke the protocol, or this plugin has a defect.
pub fn defect(code: &str, message: impl Into<String>) -> Status {
    failure(ErrorClass::Internal, code, message, "Report this to the authors of the plugin and of the host.")
}

/// A key of a configuration. One without a default is required.
pub struct Key {
    pub name: &'static str,
    pub kind: &'static str,
    pub default: Option<&'static str>,
    pub choices: &'static [&'static str],
    pub documentation: &'static str,
}

impl Key {
    fn describe(&self) -> connector::ConfigKey {
        connector::ConfigKey {
            name: self.name.to_string(),
            r#type: self.kind.to_string(),
            default_value: self.default.map(str::to_string),
            required: self.default.is_none(),
            importance: if self.default.is_none() { "high" } else { "medium" }.to_string(),
            documentation: self.documentation.to_string(),
            choices: self.choices.iter().map(|one| one.to_string()).collect(),
            ..Default::default()
        }
    }

    /// What is wrong with a value, with the words of how to mend it.
    fn objection(&self, value: Option<&str>) -> Option<(&'static str, String)> {
        let given = value.map(str::trim).filter(|text| !text.is_empty());
        let Some(text) = given.or(self.default) else {
            return Some(("config.missing", "Set it.".to_string()));
        };
        let fix = match self.kind {
            "int" if !text.parse::<u32>().is_ok_and(|number| number > 0) => "Give a whole number from 1.".to_string(),
            "boolean" if !["true", "false"].contains(&text) => "Give true or false.".to_string(),
            "enum" if !self.choices.contains(&text) => format!("Give one of: {}.", self.choices.join(", ")),
            _ => return None,
        };
        Some(("config.invalid_value", fix))
    }
}

/// Values of a configuration that is in order, with defaults.
pub struct Settings(HashMap<&'static str, String>);

impl Settings {
    pub fn text(&self, key: &str) -> &str {
        &self.0[key]
    }

    pub fn is_true(&self, key: &str) -> bool {
        self.text(key) == "true"
    }

    pub fn number(&self, key: &str) -> usize {
        self.text(key).parse().expect("it was looked at when the settings were made")
    }
}

fn keys_of(name: &str) -> Result<&'static [Key], Status> {
    match name {
        source::NAME => Ok(source::KEYS),
        sink::NAME => Ok(sink::KEYS),
        _ => {
            let message = format!("there is no connector '{name}' here");
            Err(failure(
                ErrorClass::Config,
                "plugin.unknown_connector",
                message,
                &format!("Use {} or {}.", source::NAME, sink::NAME),
            ))
        }
    }
}

/// Look at every key that there is, and every one that was given.
fn validate(keys: &'static [Key], target: &connector::Target) -> Vec<connector::ConfigValue> {
    let finding = |name: &str, code: &str, what: String, fix: String| {
        vec![Diagnostic { config_path: name.to_string(), ..diagnostic(ErrorClass::Config, code, what, &fix) }]
    };
    let given = |name: &str| target.config.get(name).or_else(|| target.secrets.get(name));
    let mut values: Vec<_> = keys
        .iter()
        .map(|key| {
            let value = given(key.name).map(String::as_str);
            let objection = key.objection(value).map(|(code, fix)| {
                let what = value.map_or("has no value and needs one".to_string(), |text| {
                    format!("has a value that is not valid: '{text}'")
                });
                finding(key.name, code, format!("'{}' {what}", key.name), fix)
            });
            connector::ConfigValue {
                name: key.name.to_string(),
                value: value.or(key.default).map(str::to_string),
                visible: true,
                diagnostics: objection.unwrap_or_default(),
                recommended_values: vec![],
            }
        })
        .collect();
    let names: Vec<_> = keys.iter().map(|key| key.name).collect();
    for name in target.config.keys().chain(target.secrets.keys()).filter(|name| !names.contains(&name.as_str())) {
        let diagnostics = finding(
            name,
            "config.unknown_key",
            format!("'{name}' is no key"),
            format!("The keys are: {}.", names.join(", ")),
        );
        values.push(connector::ConfigValue { name: name.clone(), diagnostics, ..Default::default() });
    }
    values
}

/// The settings of a target; a configuration that is not in order is refused.
pub fn settings(target: Option<&connector::Target>, name: &str) -> Result<Settings, Status> {
    let target = target.ok_or_else(|| defect("plugin.no_target", "there is no target in the request"))?;
    if target.connector != name {
        keys_of(&target.connector)?;
        return Err(defect("plugin.wrong_service", format!("this is no call for '{}'", target.connector)));
    }
    let keys = keys_of(name)?;
    let values = validate(keys, target);
    if let Some(found) = values.iter().flat_map(|value| &value.diagnostics).next() {
        return Err(failure(ErrorClass::Config, &found.code, found.message.clone(), &found.fix));
    }
    let text =
        |key: &Key| values.iter().find(|one| one.name == key.name).and_then(|one| one.value.as_deref()).map(str::trim);
    Ok(Settings(
        keys.iter()
            .map(|key| {
                (key.name, text(key).filter(|one| !one.is_empty()).or(key.default).unwrap_or_default().to_string())
            })
            .collect(),
    ))
}

fn describe() -> connector::DescribeResponse {
    let spec = |name: &str, kind: connector::Kind, title: &str, keys: &[Key]| connector::ConnectorSpec {
        name: name.to_string(),
        kind: kind as i32,
        title: title.to_string(),
        config_keys: keys.iter().map(Key::describe).collect(),
        ..Default::default()
    };
    let reads = connector::SourceCapabilities { replayable: true, bounded: true, ..Default::default() };
    let writes = connector::SinkCapabilities {
        commit_modes: vec![connector::CommitMode::TwoPhase as i32],
        ..Default::default()
    };
    connector::DescribeResponse {
        name: env!("CARGO_PKG_NAME").to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        sdk: "none".to_string(),
        connectors: vec![
            connector::ConnectorSpec {
                source: Some(reads),
                ..spec(source::NAME, connector::Kind::Source, "Lines of a text file, in Rust.", source::KEYS)
            },
            connector::ConnectorSpec {
                sink: Some(writes),
                ..spec(
                    sink::NAME,
                    connector::Kind::Sink,
                    "Files of JSON lines or of text, exactly once, in Rust.",
                    sink::KEYS,
                )
            },
        ],
        memory_file: None,
    }
}

struct Plugin {
    sources: Arc<source::Sources>,
    stop: Arc<Notify>,
}

#[tonic::async_trait]
impl PluginService for Plugin {
    async fn describe(
        &self,
        _: Request<connector::DescribeRequest>,
    ) -> Result<Response<connector::DescribeResponse>, Status> {
        Ok(Response::new(describe()))
    }

    async fn shutdown(
        &self,
        _: Request<connector::ShutdownRequest>,
    ) -> Result<Response<connector::ShutdownResponse>, Status> {
        self.sources.drain();
        self.stop.notify_one();
        Ok(Response::new(connector::ShutdownResponse {}))
    }
}

/// Look at the outside of a connector: its file, or its folder.
fn check_outside(target: &connector::Target) -> Result<(), Diagnostic> {
    let refused = |status: Status| {
        diagnostic(ErrorClass::Config, "config.invalid", status.message(), "Correct the configuration.")
    };
    let settings = settings(Some(target), &target.connector).map_err(refused)?;
    if target.connector == sink::NAME {
        return sink::check_folder(&settings);
    }
    std::fs::File::open(settings.text("file")).map(drop).map_err(|error| {
        let message = format!("'{}' cannot be read: {error}", settings.text("file"));
        diagnostic(
            ErrorClass::Config,
            "source.file.unreadable",
            message,
            "Set 'file' to a file that the user of the worker may read.",
        )
    })
}

type Answers<T> = ReceiverStream<Result<T, Status>>;

#[tonic::async_trait]
impl ConnectorService for Plugin {
    type CheckConnectionStream = Answers<connector::CheckConnectionResponse>;
    type ListDatasetsStream = Answers<connector::ListDatasetsResponse>;
    type MonitorStream = Answers<connector::MonitorResponse>;

    async fn validate_config(
        &self,
        request: Request<connector::ValidateConfigRequest>,
    ) -> Result<Response<connector::ValidateConfigResponse>, Status> {
        let target = request.into_inner().target.unwrap_or_default();
        let values = validate(keys_of(&target.connector)?, &target);
        Ok(Response::new(connector::ValidateConfigResponse { values, diagnostics: vec![] }))
    }

    async fn check_connection(
        &self,
        request: Request<connector::CheckConnectionRequest>,
    ) -> Result<Response<Self::CheckConnectionStream>, Status> {
        let target = request.into_inner().target.unwrap_or_default();
        keys_of(&target.connector)?;
        let found = tokio::task::block_in_place(|| check_outside(&target)).err();
        let step = if target.connector == sink::NAME { "folder" } else { "file" };
        let answer = connector::CheckConnectionResponse {
            step: step.to_string(),
            ok: found.is_none(),
            diagnostics: found.into_iter().collect(),
            ..Default::default()
        };
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let _ = sender.try_send(Ok(answer)); // the channel has room for it
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn list_datasets(
        &self,
        _: Request<connector::ListDatasetsRequest>,
    ) -> Result<Response<Self::ListDatasetsStream>, Status> {
        Err(Status::unimplemented("it reads one file, which its key names"))
    }

    async fn plan(
        &self,
        request: Request<connector::PlanRequest>,
    ) -> Result<Response<connector::PlanResponse>, Status> {
        let target = request.into_inner().target.unwrap_or_default();
        let settings = settings(Some(&target), &target.connector)?;
        let partitions = if target.connector == source::NAME { vec![source::partition(&settings)] } else { vec![] };
        Ok(Response::new(connector::PlanResponse { partitions, ..Default::default() }))
    }

    /// The sink owns what it staged: it goes when the connector is deleted, or begins anew.
    async fn apply(
        &self,
        request: Request<connector::ApplyRequest>,
    ) -> Result<Response<connector::ApplyResponse>, Status> {
        let request = request.into_inner();
        let target = request.target.unwrap_or_default();
        let settings = settings(Some(&target), &target.connector)?;
        let ends =
            [connector::ApplyAction::Delete as i32, connector::ApplyAction::Reset as i32].contains(&request.action);
        let actions = if ends && target.connector == sink::NAME {
            tokio::task::block_in_place(|| sink::sweep(&settings, &target.instance))?
        } else {
            vec![]
        };
        Ok(Response::new(connector::ApplyResponse { actions, diagnostics: vec![] }))
    }

    async fn alter_offsets(
        &self,
        _: Request<connector::AlterOffsetsRequest>,
    ) -> Result<Response<connector::AlterOffsetsResponse>, Status> {
        Err(Status::unimplemented("offsets live in the host alone"))
    }

    async fn signal(
        &self,
        _: Request<connector::SignalRequest>,
    ) -> Result<Response<connector::SignalResponse>, Status> {
        Err(Status::unimplemented("there is nothing to ask its tasks for"))
    }

    async fn monitor(
        &self,
        _: Request<tonic::Streaming<connector::MonitorRequest>>,
    ) -> Result<Response<Self::MonitorStream>, Status> {
        Err(Status::unimplemented("a plan changes with its configuration alone"))
    }
}

/// What the host gives to a process that it starts.
struct Launch {
    nonce: String,
    folder: String,
    handshake_file: Option<String>,
}

impl Launch {
    fn read() -> Self {
        let given = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let (Some(_), Some(nonce), Some(folder)) =
            (given("PENSTOCK_PLUGIN_MAGIC_COOKIE"), given("PENSTOCK_INSTANCE_NONCE"), given("PLUGIN_UNIX_SOCKET_DIR"))
        else {
            eprintln!("This is a plugin of Penstock. A host starts it; by hand: penstock plugin run FOLDER");
            exit(1);
        };
        let versions = given("PLUGIN_PROTOCOL_VERSIONS").unwrap_or_default();
        if !versions.split(',').any(|one| one.trim() == PROTOCOL_VERSION) {
            eprintln!("This plugin speaks version {PROTOCOL_VERSION} of the protocol, the host speaks: {versions}");
            exit(1);
        }
        Launch { nonce, folder, handshake_file: given("PENSTOCK_HANDSHAKE_FILE") }
    }

    /// Say in one line where the plugin is; on stdout for hosts that name no file.
    fn shake_hands(&self, socket: &Path) -> std::io::Result<()> {
        let line = format!("1|{PROTOCOL_VERSION}|unix|{}|grpc|\n", socket.display());
        match &self.handshake_file {
            Some(file) => {
                let new = format!("{file}.new");
                std::fs::write(&new, line)?;
                std::fs::rename(new, file)
            }
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(line.as_bytes())?;
                out.flush()
            }
        }
    }
}

/// The host closes our stdin, or is gone: nobody is left to read for. Staged rows are safe where they are.
fn end_with_host() {
    let mut bytes = [0; 256];
    while std::io::stdin().read(&mut bytes).is_ok_and(|read| read > 0) {}
    exit(0);
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let launch = Launch::read();
    std::thread::spawn(end_with_host);
    let socket = Path::new(&launch.folder).join(format!("s{}", std::process::id()));
    let listener = UnixListener::bind(&socket)?;
    let (health_reporter, health) = tonic_health::server::health_reporter();
    health_reporter.set_service_status("plugin", tonic_health::ServingStatus::Serving).await;
    let stop = Arc::new(Notify::new());
    let sources = Arc::new(source::Sources::default());
    let plugin = Arc::new(Plugin { sources: sources.clone(), stop: stop.clone() });
    let nonce = launch.nonce.clone();
    let guard = move |request: Request<()>| match request.metadata().get("penstock-credential") {
        Some(given) if given.as_bytes() == nonce.as_bytes() => Ok(request),
        _ => Err(failure(
            ErrorClass::Auth,
            "plugin.credential_refused",
            "this is not the credential of this launch",
            "Call the plugin through its host.",
        )),
    };
    let reading = SourceServiceServer::from_arc(sources).max_decoding_message_size(LARGEST_MESSAGE);
    let writing = SinkServiceServer::new(sink::Sinks::default()).max_decoding_message_size(LARGEST_MESSAGE);
    let server = tonic::transport::Server::builder()
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(16 << 20)
        .add_service(health)
        .add_service(InterceptedService::new(PluginServiceServer::from_arc(plugin.clone()), guard.clone()))
        .add_service(InterceptedService::new(ConnectorServiceServer::from_arc(plugin), guard.clone()))
        .add_service(InterceptedService::new(reading, guard.clone()))
        .add_service(InterceptedService::new(writing, guard))
        .serve_with_incoming(UnixListenerStream::new(listener));
    let serving = tokio::spawn(server); // it listens before hands are shaken
    launch.shake_hands(&socket)?;
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        ended = serving => ended??,
        _ = terminated.recv() => {}
        _ = stop.notified() => tokio::time::sleep(LINGER).await, // for the answer, and what streams still have to say
    }
    exit(0)
}
