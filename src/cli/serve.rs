//! `ffwd serve`: the HTTP server.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::args::LoadArgs;
use super::help;
use crate::constraint::tools::ToolStyle;
use crate::error::{Error, ErrorKind, Result};
use crate::sample::SamplingParams;
use crate::serve::{BoundServer, ModelSource, ServeOptions};

/// The name of the embedded model.
const EMBEDDED: &str = "extract-5m";

/// Time to connect to a server that is asked for its health, and to read a part of its answer.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer that is read of it, in bytes.
const MAX_HEALTH: u64 = 1 << 16;

const EXAMPLES: [(&str, &str); 4] = [
    ("Serve the embedded model on http://127.0.0.1:8080/v1", "ffwd serve"),
    (
        "Ask for a record",
        "curl localhost:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\",\n  \
            \"content\": \"Total: 12.50 EUR\"}], \"response_format\": {\"type\": \"json_schema\",\n  \
            \"json_schema\": {\"name\": \"bill\", \"schema\": {\"type\": \"object\", \"properties\":\n  \
            {\"total\": {\"type\": \"number\"}}, \"required\": [\"total\"]}}}}'",
    ),
    (
        "Serve two models, each loaded when it is first asked for",
        "ffwd serve --model small=OWNER/NAME:Q4_K_M --model large=path/to/model.gguf",
    ),
    (
        "Serve other machines, with a key",
        "FFWD_API_KEY=secret ffwd serve --model path/to/model --host 0.0.0.0",
    ),
];

const PLAYGROUND_EXAMPLES: [(&str, &str); 2] = [
    ("Open the page at http://127.0.0.1:8080", "ffwd playground --open"),
    ("See how another model fills a schema", "ffwd playground --model path/to/model.gguf"),
];

const ENDPOINTS: &[&str] = &[
    "GET  /                                                      The playground, a page",
    "POST /v1/chat/completions, /v1/completions, /v1/responses   Generate, also as a stream",
    "POST /v1/extract                                            Extract records, as `ffwd extract`",
    "GET  /v1/models                                             List the models",
    "POST /tokenize, /detokenize                                 Convert text and tokens",
    "GET  /health, /version, /metrics                            Report on the server",
];

/// Serve models over HTTP to clients of OpenAI's API
///
/// Clients use it unchanged with the base URL http://127.0.0.1:8080/v1. An answer satisfies its
/// constraint: response_format, tools, structured_outputs, guided_json, grammar and others. A field
/// that cannot be honoured is an error that names it, or a warning in the member `ffwd` of the answer.
/// SIGTERM and Ctrl-C finish running requests.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES), after_long_help = help::sections(&[
    help::examples(&EXAMPLES),
    help::note("Endpoints", ENDPOINTS),
]))]
pub(super) struct Args {
    /// Listen on this address; others than 127.0.0.1 let other machines in
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Listen on this port; 0 takes a free one
    #[arg(short, long, value_name = "N", default_value_t = 8080)]
    port: u16,
    /// Ask the server that runs at --host and --port whether it is well, and exit; for health checks
    #[arg(long)]
    health: bool,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Sample at temperature X where a request names none; 0 takes the most probable token
    #[arg(long, value_name = "X", default_value_t = 0.0, help_heading = "Decoding")]
    temperature: f32,
    /// Expect tool calls in this style [default: as the model's special tokens suggest, else hermes]
    ///
    /// `ffwd generate --help` lists the styles.
    #[arg(long, value_name = "STYLE", value_parser = ToolStyle::by_name, help_heading = "Decoding")]
    tool_style: Option<ToolStyle>,
    /// Serve the model in a folder or a GGUF file, under a name (repeatable) [default: the embedded
    /// model]
    ///
    /// The first model is loaded at the start, the others when a client asks for them. Without NAME=
    /// the name is that of the file. `ffwd extract --help` says what a model may be. MODEL+ADAPTER is a
    /// model with an adapter (LoRA); models of the same file share its weights.
    #[arg(short, long = "model", value_name = "[NAME=]FOLDER|GGUF|NAME[+ADAPTER]", help_heading = "Models")]
    models: Vec<String>,
    #[command(flatten)]
    load: LoadArgs,
}

/// Show the engine at work on a page in the browser
///
/// The page shows masks, forced runs, drafts and rollbacks of a running generation, the automaton of a
/// constraint, and what each token may be. It is part of `ffwd serve`, whose options this command takes.
#[derive(clap::Args)]
#[command(after_help = help::examples(&PLAYGROUND_EXAMPLES))]
pub(super) struct PlaygroundArgs {
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    serve: Args,
}

/// Options of who may use the server.
#[derive(clap::Args)]
#[command(next_help_heading = "Access")]
struct AccessArgs {
    /// Require this key from clients [default: the environment variable FFWD_API_KEY]
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Answer requests to this host name besides localhost; `*` answers all (repeatable)
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Let pages of this origin use the server; `*` lets all (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    cors_origin: Vec<String>,
}

/// Limits of the server.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Generate at most N answers at the same time for each model
    #[arg(long, value_name = "N", default_value_t = 16)]
    batch: usize,
    /// Let at most N answers wait; further requests get the status 503
    #[arg(long, value_name = "N", default_value_t = 256)]
    queue: usize,
    /// Hold at most N MiB of keys and values of running answers
    #[arg(long, value_name = "N", default_value_t = 1024)]
    cache_mib: usize,
    /// Keep at most N MiB of keys and values of prompts for later prompts with the same beginning
    #[arg(long, value_name = "N", default_value_t = 64)]
    prefix_mib: usize,
    /// Read bodies of at most N KiB
    #[arg(long, value_name = "N", default_value_t = 8192)]
    max_body_kib: usize,
    /// Compile constraints of at most N KiB
    #[arg(long, value_name = "N", default_value_t = 1024)]
    max_constraint_kib: usize,
    /// Serve at most N connections
    #[arg(long, value_name = "N", default_value_t = 1024)]
    max_connections: usize,
    /// End an answer after this time
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Wait this long for running answers at the end
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    if args.health {
        return ask_health(SocketAddr::new(args.host, args.port));
    }
    let server = bind(args)?;
    server.run();
    Ok(ExitCode::SUCCESS)
}

pub(super) fn run_playground(args: &PlaygroundArgs) -> Result<ExitCode> {
    let server = bind(&args.serve)?;
    let page = page(server.address());
    eprintln!("the playground is at {page}");
    if args.open {
        open(&page);
    }
    server.run();
    Ok(ExitCode::SUCCESS)
}

/// Asks a running server whether it is well.
fn ask_health(mut address: SocketAddr) -> Result<ExitCode> {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, HEALTH_TIMEOUT)?;
        stream.set_read_timeout(Some(HEALTH_TIMEOUT))?;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(MAX_HEALTH).read_to_string(&mut answer)?;
        Ok(answer)
    };
    let fault = |what: String| Error::new(ErrorKind::Io, format!("the server at {address} {what}"));
    let answer = ask().map_err(|error| fault(format!("does not answer: {error}")))?;
    let status = answer.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(ExitCode::SUCCESS),
        _ => Err(fault(format!("is not well: {status:?}"))),
    }
}

/// Returns the address of the page for a browser on this machine.
fn page(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        ip if ip.is_unspecified() => format!("http://localhost:{port}/"),
        _ => format!("http://{address}/"),
    }
}

/// Opens a page with the command of the system for it; without one, the person has the address.
fn open(page: &str) {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let mut command = std::process::Command::new(program);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        eprintln!("warning: no browser could be opened: {error}");
    }
}

fn bind(args: &Args) -> Result<BoundServer> {
    let server = BoundServer::bind(sources(args)?, options(args)?)?;
    let address = server.address();
    let threads = server.threads();
    eprintln!("the model runs on {threads} thread{}", if threads == 1 { "" } else { "s" });
    eprintln!("listening on http://{address}/v1");
    if !address.ip().is_loopback() && args.access.api_key.is_none() && key().is_none() {
        eprintln!("warning: other machines can use this server without a key; --api-key requires one");
    }
    Ok(server)
}

fn key() -> Option<String> {
    std::env::var("FFWD_API_KEY").ok().filter(|key| !key.is_empty())
}

fn options(args: &Args) -> Result<ServeOptions> {
    let limits = &args.limits;
    let sampling = SamplingParams { temperature: args.temperature, ..SamplingParams::default() };
    crate::sample::Sampler::new(sampling.clone())?;
    let mut options = ServeOptions::default();
    options.address = SocketAddr::new(args.host, args.port);
    options.api_key = args.access.api_key.clone().or_else(key);
    options.allowed_hosts.clone_from(&args.access.allow_host);
    options.cors_origins.clone_from(&args.access.cors_origin);
    options.scheduler.batch = limits.batch;
    options.scheduler.queue = limits.queue;
    options.scheduler.cache_bytes = limits.cache_mib.saturating_mul(1 << 20);
    options.scheduler.prefix_bytes = limits.prefix_mib.saturating_mul(1 << 20);
    options.sampling = sampling;
    options.max_body = limits.max_body_kib.saturating_mul(1 << 10);
    options.max_constraint = limits.max_constraint_kib.saturating_mul(1 << 10);
    options.max_connections = limits.max_connections.clamp(1, 1 << 20);
    #[cfg(feature = "documents")]
    {
        options.document = Some(crate::documents::texts);
    }
    options.timeout = Duration::from_secs(limits.timeout.min(1 << 31));
    options.grace = Duration::from_secs(limits.grace.min(1 << 31));
    Ok(options)
}

/// Returns the models with their names.
fn sources(args: &Args) -> Result<Vec<ModelSource>> {
    args.load.check_threads()?;
    // All models share the threads.
    let load = Arc::new(args.load.clone());
    let source = |name: String, model: Option<String>, adapter: Option<String>| {
        let load = load.clone();
        ModelSource {
            name,
            load: Box::new(move |markers| load.engine(model.as_deref(), adapter.as_deref(), markers)),
            tool_style: args.tool_style,
        }
    };
    if args.models.is_empty() {
        return Ok(vec![source(EMBEDDED.to_owned(), None, None)]);
    }
    if args.models.len() > 1 && args.load.names_files() {
        let message = "--draft-model and --chat-template belong to one model, and there are several";
        return Err(Error::new(ErrorKind::InvalidOption, message).hint("start a server for each"));
    }
    let mut sources: Vec<ModelSource> = Vec::new();
    for text in &args.models {
        let (name, model) = match text.split_once('=') {
            Some((name, model)) => (name.to_owned(), model),
            None => (default_name(text), text.as_str()),
        };
        let (model, adapter) = match model.rsplit_once('+').filter(|_| !Path::new(model).exists()) {
            Some((model, adapter)) => (model, Some(adapter)),
            None => (model, None),
        };
        if name.is_empty() || model.is_empty() || adapter.is_some_and(str::is_empty) {
            let message = format!("--model {text} lacks a name, a file or an adapter");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        if sources.iter().any(|other| other.name == name) {
            let message = format!("two models have the name `{name}`");
            return Err(Error::new(ErrorKind::InvalidOption, message).hint("write --model NAME=FILE"));
        }
        sources.push(source(name, Some(model.to_owned()), adapter.map(str::to_owned)));
    }
    Ok(sources)
}

/// Returns the name of a model that has none: that of its file or folder, and that of its adapter.
fn default_name(model: &str) -> String {
    let name = |path: &str| {
        let file = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
        file.strip_suffix(".gguf").unwrap_or(file).to_owned()
    };
    model.split('+').map(name).collect::<Vec<_>>().join("+")
}
