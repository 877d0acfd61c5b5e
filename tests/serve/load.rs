//! Many requests at once to the program, a tenth of them hostile: nothing is lost, and no answer is
//! in the wrong place, also if SIGTERM arrives in the middle.
//!
//! `FFWD_SERVE_LOAD` is the number of requests (default 600). With it, latencies and the memory of
//! the server are printed.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Answer, chat_body, metric, receive, send, try_send};
use crate::program::Program;

const CLIENTS: usize = 64;
const DEFAULT_REQUESTS: usize = 600;

/// The body of a request that asks for its own number.
fn body(i: usize) -> String {
    let more = match i % 4 {
        0 => json!({"guided_regex": format!("no\\. {i}")}),
        1 => json!({"guided_choice": [format!("no. {i}")]}),
        2 => json!({"grammar": format!("root ::= \"no. {i}\"")}),
        _ => json!({"tools": [{"type": "function", "function": {"name": format!("f{i}"),
            "parameters": {"const": {"no.": i}}}}], "tool_choice": "required", "parallel_tool_calls": false}),
    };
    let mut body = chat_body(more);
    body["stream"] = i.is_multiple_of(3).into();
    body.to_string()
}

/// Checks that an answer is whole and has the number of its request.
fn is_answered(i: usize, answer: &Answer) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let stream = i.is_multiple_of(3);
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

/// A request that asks for its own number.
fn honest(address: SocketAddr, i: usize) {
    let sent = send(address, "POST", "/v1/chat/completions", "", &body(i));
    is_answered(i, &receive(sent).unwrap_or_else(|| panic!("answer {i} is lost")));
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

/// The number of requests, and whether it was given.
fn requests() -> (usize, bool) {
    let asked = std::env::var("FFWD_SERVE_LOAD").ok().and_then(|n| n.parse().ok());
    (asked.unwrap_or(DEFAULT_REQUESTS), asked.is_some())
}

/// Runs clients at once, each of which takes the next number until none is left.
fn each(requests: usize, ask: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= requests {
                        break;
                    }
                    ask(i);
                }
            });
        }
    });
}

#[test]
fn nothing_is_lost_under_load() {
    let (requests, asked) = requests();
    let server = Program::serve(&[]);
    let address = server.address;
    let (times, memory) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let start = Instant::now();
    each(requests, |i| {
        let begun = Instant::now();
        match i % 10 {
            9 => hostile(address, i),
            _ => {
                honest(address, i);
                times.lock().unwrap().push(begun.elapsed());
            }
        }
        if i.is_multiple_of((requests / 10).max(1)) {
            memory.lock().unwrap().push(server.resident());
        }
    });
    let mut times = times.into_inner().unwrap();
    assert_eq!(times.len(), (0..requests).filter(|i| i % 10 != 9).count());
    assert_eq!(metric(address, "ffwd_requests_in_flight"), 1, "this request alone");
    if asked {
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!("{requests} requests in {:.1?}, {CLIENTS} at once", start.elapsed());
        println!("answers: median {:.1?}, p90 {:.1?}, p99 {:.1?}", at(50), at(90), at(99));
        let quick = metric(address, "ffwd_admission_seconds_bucket{le=\"0.05\"}");
        let all = metric(address, "ffwd_admission_seconds_count");
        println!("admitted within 50 ms: {quick} of {all}");
        println!("memory of the server in MiB, each tenth: {:?}", memory.into_inner().unwrap());
    }
}

#[test]
#[cfg(unix)]
fn what_was_sent_before_sigterm_is_answered() {
    let (requests, asked) = requests();
    let server = Program::serve(&[]);
    let address = server.address;
    let signalled = OnceLock::new();
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    each(requests, |i| {
        if i == requests / 2 {
            // Before the signal, so that what is begun after this time may be refused.
            signalled.set(Instant::now()).unwrap();
            server.terminate();
        }
        // A server that does not listen answers nothing.
        let sent = try_send(address, "POST", "/v1/chat/completions", "", &body(i));
        let sent_at = Instant::now();
        match sent.ok().and_then(receive) {
            Some(answer) => {
                is_answered(i, &answer);
                answered.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                let late = signalled.get().is_some_and(|at| sent_at > *at);
                assert!(late, "request {i} was sent before the signal and is lost");
                refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert!(server.ended().success());
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    assert!(answered >= requests / 2 && refused > 0, "{answered} answered, {refused} refused");
    if asked {
        println!("SIGTERM after {} requests: {answered} answered, {refused} came too late", requests / 2);
    }
}
