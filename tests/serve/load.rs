//! Many requests at once, a tenth of them hostile: nothing is lost, and no answer is in the wrong
//! place.
//!
//! `FFWD_SERVE_LOAD` is the number of requests (default 600). With it, latencies and memory are
//! printed.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{chat_body, metric, receive, send, server};

const CLIENTS: usize = 64;
const DEFAULT_REQUESTS: usize = 600;

/// A request that asks for its own number.
fn honest(address: SocketAddr, i: usize) {
    let stream = i.is_multiple_of(3);
    let more = match i % 4 {
        0 => json!({"guided_regex": format!("no\\. {i}")}),
        1 => json!({"guided_choice": [format!("no. {i}")]}),
        2 => json!({"grammar": format!("root ::= \"no. {i}\"")}),
        _ => json!({"tools": [{"type": "function", "function": {"name": format!("f{i}"),
            "parameters": {"const": {"no.": i}}}}], "tool_choice": "required", "parallel_tool_calls": false}),
    };
    let mut body = chat_body(more);
    body["stream"] = stream.into();
    let sent = send(address, "POST", "/v1/chat/completions", "", &body.to_string());
    let answer = receive(sent).unwrap_or_else(|| panic!("answer {i} is lost"));
    assert_eq!(answer.status, 200, "{answer:?}");
    let messages = match stream {
        true => answer.events(),
        false => vec![answer.json()],
    };
    let mut text = String::new();
    for choice in messages.iter().flat_map(|message| message["choices"].as_array().unwrap()) {
        let part = if stream { &choice["delta"] } else { &choice["message"] };
        text += part["content"].as_str().unwrap_or_default();
        for call in part["tool_calls"].as_array().into_iter().flatten() {
            text += call["function"]["arguments"].as_str().unwrap_or_default();
        }
    }
    let wanted = if i % 4 == 3 { format!("{{\"no.\":{i}}}") } else { format!("no. {i}") };
    assert_eq!(text, wanted);
}

/// A request that no one should send.
fn hostile(address: SocketAddr, i: usize) {
    let post = |body: &str| send(address, "POST", "/v1/chat/completions", "", body);
    let status = |body: &str| receive(post(body)).map(|answer| answer.status);
    match i / 10 % 6 {
        0 => assert_eq!(status("{\"messages\": [{\"role\": "), Some(400)),
        // It is answered before it is read, so the answer may be lost in a reset.
        1 => assert!(matches!(status(&" ".repeat(9 << 20)), Some(413) | None)),
        2 => {
            let schema = json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
            assert_eq!(status(&chat_body(json!({"guided_json": schema})).to_string()), Some(400));
        }
        3 => {
            let mut slow = TcpStream::connect(address).unwrap();
            for byte in b"POST /v1/chat" {
                slow.write_all(&[*byte]).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        4 => drop(post(&chat_body(json!({"max_tokens": 1500, "stream": true})).to_string())),
        _ => {
            let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
            let body = format!(
                "{{\"messages\": [{{\"role\": \"user\", \"content\": \"x\"}}], \"guided_json\": {deep}}}"
            );
            assert_eq!(status(&body), Some(400));
        }
    }
}

/// The memory of this process in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

#[test]
fn nothing_is_lost_under_load() {
    let asked: Option<usize> = std::env::var("FFWD_SERVE_LOAD").ok().and_then(|n| n.parse().ok());
    let requests = asked.unwrap_or(DEFAULT_REQUESTS);
    let server = server(|_| {});
    let address = server.address();
    let (next, times, memory) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= requests {
                        break;
                    }
                    let begun = Instant::now();
                    match i % 10 {
                        9 => hostile(address, i),
                        _ => {
                            honest(address, i);
                            times.lock().unwrap().push(begun.elapsed());
                        }
                    }
                    if i.is_multiple_of((requests / 10).max(1)) {
                        memory.lock().unwrap().push(resident());
                    }
                }
            });
        }
    });
    let mut times = times.into_inner().unwrap();
    assert_eq!(times.len(), (0..requests).filter(|i| i % 10 != 9).count());
    assert_eq!(metric(address, "ffwd_requests_in_flight"), 1, "this request alone");
    if asked.is_some() {
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!("{requests} requests in {:.1?}, {CLIENTS} at once", start.elapsed());
        println!("answers: median {:.1?}, p90 {:.1?}, p99 {:.1?}", at(50), at(90), at(99));
        let quick = metric(address, "ffwd_admission_seconds_bucket{le=\"0.05\"}");
        let all = metric(address, "ffwd_admission_seconds_count");
        println!("admitted within 50 ms: {quick} of {all}");
        println!("memory in MiB, each tenth: {:?}", memory.into_inner().unwrap());
    }
    server.stop();
}
