//! A small HTTP client, and servers to talk to.

use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ffwd::Engine;
use ffwd::serve::{BoundServer, ModelSource, ServeOptions, ServerHandle};
use serde_json::Value;

/// The embedded model under a name.
pub(crate) fn embedded(name: &str) -> ModelSource {
    ModelSource {
        name: name.to_owned(),
        load: Box::new(|markers| Engine::builder().markers(markers).build()),
        tool_style: None,
    }
}

/// Starts a server with the embedded model.
pub(crate) fn server(change: impl FnOnce(&mut ServeOptions)) -> ServerHandle {
    let mut options = ServeOptions::default();
    options.address.set_port(0);
    change(&mut options);
    BoundServer::bind(vec![embedded("embedded")], options).unwrap().spawn()
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The text of the first choice of a chat.
    pub(crate) fn content(&self) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    }

    /// Part `name` of all choices together, streamed or not.
    pub(crate) fn part(&self, name: &str) -> String {
        let stream = self.body.starts_with("data: ");
        let messages = if stream { self.events() } else { vec![self.json()] };
        let part = if stream { "delta" } else { "message" };
        let choices = messages.iter().flat_map(|message| message["choices"].as_array().unwrap());
        choices.filter_map(|choice| choice[part][name].as_str()).collect()
    }

    /// The data of the events of a stream, in which `[DONE]` is the last.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data: Vec<&str> = self.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        let Some(("[DONE]", data)) = data.split_last().map(|(last, rest)| (*last, rest)) else {
            panic!("not ended: {self:?}")
        };
        data.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Connects and sends a request with these further header lines.
pub(crate) fn send(address: SocketAddr, method: &str, path: &str, head: &str, body: &str) -> TcpStream {
    try_send(address, method, path, head, body).unwrap()
}

/// As [`send`], if the server listens.
pub(crate) fn try_send(
    address: SocketAddr,
    method: &str,
    path: &str,
    head: &str,
    body: &str,
) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    let head = if head.contains("Host:") { head.to_owned() } else { format!("Host: {address}\r\n{head}") };
    let text = format!(
        "{method} {path} HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    // A server may answer before it has read everything.
    let _ = stream.write_all(text.as_bytes());
    Ok(stream)
}

/// Reads the answer; `None` if the connection ends before it is whole.
pub(crate) fn receive(mut stream: TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    // A reset after the answer does not matter.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let lower = head.to_ascii_lowercase();
    let body = match lower.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        Some(length) => body.get(..length.parse().ok()?)?.to_owned(),
        None if lower.contains("transfer-encoding: chunked") => unchunked(body)?,
        None => body.to_owned(),
    };
    Some(Answer { status, head: lower, body })
}

fn unchunked(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (length, after) = rest.split_once("\r\n")?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.push_str(after.get(..length)?);
        rest = after.get(length + 2..)?;
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    receive(send(address, "GET", path, "", "")).unwrap()
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Answer {
    receive(send(address, "POST", path, "", &body.to_string())).unwrap()
}

/// Asks for a chat about a short text, with these further members.
pub(crate) fn chat(address: SocketAddr, more: Value) -> Answer {
    post(address, "/v1/chat/completions", &chat_body(more))
}

pub(crate) fn chat_body(more: Value) -> Value {
    let body = serde_json::json!({"messages": [{"role": "user", "content": "Acme Ltd. Total: 12.50 EUR"}]});
    with_members(body, &more)
}

/// A request with further members.
pub(crate) fn with_members(mut body: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The value of a line of the metrics.
pub(crate) fn metric(address: SocketAddr, name: &str) -> u64 {
    let page = get(address, "/metrics").body;
    let line =
        page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Waits for what must come at some time. Its absence is a failure, not a test without an end.
pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(120), "it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reads lines up to one that contains a text.
pub(crate) fn read_until(reader: &mut impl BufRead, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the answer ends without {text}");
    }
}
