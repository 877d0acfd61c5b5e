//! A client that hangs up, and a server that ends while it answers.

use std::io::BufReader;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;

use crate::client::{chat_body, metric, read_until, receive, send, server, wait_until};
use crate::program::Program;

/// Tokens of all answers of [`long`]; without a constraint each takes a forward of its batch.
const TOKENS: usize = 1_500;
const CHOICES: usize = 64;

fn long(stream: bool) -> String {
    let more = json!({"stream": stream, "n": CHOICES, "max_tokens": TOKENS, "temperature": 1.0, "logit_bias": {"2": -100}});
    chat_body(more).to_string()
}

/// Waits until nothing runs; fails if all forwards of a whole answer have run.
fn is_cancelled(address: SocketAddr) {
    wait_until(|| {
        metric(address, "ffwd_batch_running") == 0 && metric(address, "ffwd_batch_ended_total") > 0
    });
    let forwards = metric(address, "ffwd_forwards_total");
    // A batch has 16 of them.
    assert!((forwards as usize) < TOKENS * CHOICES / 16, "{forwards} forwards");
}

#[test]
fn a_stream_without_a_reader_is_cancelled() {
    let server = server(|_| {});
    let stream = send(server.address(), "POST", "/v1/chat/completions", "", &long(true));
    let mut reader = BufReader::new(stream);
    read_until(&mut reader, "data: ");
    drop(reader);
    is_cancelled(server.address());
    // The request is counted after its batch has ended.
    let value = |name: &str| metric(server.address(), name);
    wait_until(|| value("ffwd_outputs_total") + value("ffwd_abandoned_total") > 0);
    assert_eq!(value("ffwd_abandoned_total"), 1);
}

#[test]
fn an_answer_without_a_reader_is_cancelled() {
    let server = server(|_| {});
    let stream = send(server.address(), "POST", "/v1/chat/completions", "", &long(false));
    wait_until(|| metric(server.address(), "ffwd_batch_running") > 0);
    drop(stream);
    is_cancelled(server.address());
    assert_eq!(metric(server.address(), "ffwd_outputs_total"), 0);
}

#[test]
fn what_was_accepted_is_answered_before_the_end() {
    let server = server(|_| {});
    let address = server.address();
    let streams: Vec<_> = (0..48_usize)
        .map(|i| {
            let body = chat_body(
                json!({"guided_regex": format!("[a-z]{{100}} id {i}"), "stream": i.is_multiple_of(2)}),
            );
            send(address, "POST", "/v1/chat/completions", "", &body.to_string())
        })
        .collect();
    let ending = std::thread::spawn(move || server.stop());
    for (i, stream) in streams.into_iter().enumerate() {
        let answer = receive(stream).unwrap_or_else(|| panic!("answer {i} is lost"));
        let text = answer.part("content");
        assert!(text.ends_with(&format!(" id {i}")), "{i}: {text}");
    }
    ending.join().unwrap();
    assert!(std::net::TcpStream::connect(address).is_err(), "it still listens");
}

#[test]
fn what_does_not_end_in_time_is_cancelled() {
    let server = server(|options| options.grace = Duration::from_millis(50));
    let stream = send(server.address(), "POST", "/v1/chat/completions", "", &long(false));
    wait_until(|| metric(server.address(), "ffwd_batch_running") > 0);
    server.stop();
    assert!(receive(stream).is_none_or(|answer| answer.status == 503));
}

#[test]
fn the_health_check_tells_a_server_that_is_well() {
    let running = Program::serve(&[]);
    let check = |port: u16| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ffwd"));
        command
            .args(["serve", "--health", "--host", "0.0.0.0", "--port", &port.to_string()])
            .output()
            .unwrap()
    };
    let asked = check(running.address.port());
    assert!(asked.status.success(), "{asked:?}");
    // One that answers with an error, and none at all.
    let ill = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = ill.local_addr().unwrap().port();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = ill.accept().unwrap();
        // An answer before the request is read could be lost with it.
        read_until(&mut BufReader::new(&stream), "Connection: close");
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 503 Busy\r\n\r\n").unwrap();
    });
    let asked = check(port);
    answers.join().unwrap();
    assert!(
        !asked.status.success() && String::from_utf8_lossy(&asked.stderr).contains("503 Busy"),
        "{asked:?}"
    );
    let asked = check(port);
    assert!(!asked.status.success() && String::from_utf8_lossy(&asked.stderr).contains("does not answer"));
}
