//! Who may use a server, and how much of it.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::client::{chat, chat_body, get, receive, send, server};

#[test]
fn pages_elsewhere_are_refused() {
    let plain = server(|_| {});
    let named = server(|options| {
        options.allowed_hosts = vec!["box.lan".into()];
        options.cors_origins = vec!["http://localhost:3000".into()];
    });
    let own = plain.address().to_string();
    for (server, host, origin, want) in [
        (&plain, &*own, None, 200),
        (&plain, "localhost", None, 200),
        (&plain, "localhost:8080", None, 200),
        (&plain, "127.0.0.1:1", None, 200),
        (&plain, "[::1]:8080", None, 200),
        (&plain, "192.168.0.7", None, 200),
        (&plain, "evil.example", None, 403),
        (&plain, "evil.example:8080", None, 403),
        (&plain, "", None, 403),
        (&plain, "127.0.0.1.evil.example", None, 403),
        (&plain, &*own, Some(&*format!("http://{own}")), 200),
        (&plain, "localhost:8080", Some("http://localhost:8080"), 200),
        (&plain, "localhost:8080", Some("http://localhost:3000"), 403),
        (&plain, "localhost:8080", Some("http://evil.example"), 403),
        (&plain, "localhost:8080", Some("null"), 403),
        (&named, "box.lan:80", Some("http://localhost:3000"), 200),
        (&named, "box.lan:80", Some("http://localhost:3001"), 403),
    ] {
        let origin = origin.map_or_else(String::new, |origin| format!("Origin: {origin}\r\n"));
        let head = format!("Host: {host}\r\n{origin}");
        let answer = receive(send(server.address(), "GET", "/v1/models", &head, "")).unwrap();
        assert_eq!(answer.status, want, "{head}: {answer:?}");
    }
    let head = "Origin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n";
    let answer = receive(send(named.address(), "OPTIONS", "/v1/models", head, "")).unwrap();
    assert!(answer.head.contains("access-control-allow-origin: http://localhost:3000"), "{answer:?}");
}

#[test]
fn a_key_is_needed_where_there_is_one() {
    let server = server(|options| options.api_key = Some("secret".into()));
    for (path, key, want) in [
        ("/v1/models", "", 401),
        ("/v1/models", "Bearer secret", 200),
        ("/v1/models", "bearer secret", 200),
        ("/v1/models", "Bearer secre", 401),
        ("/v1/models", "Bearer secrets", 401),
        ("/v1/models", "Bearer ", 401),
        ("/v1/models", "secret", 401),
        ("/v1/models", "Basic secret", 401),
        ("/metrics", "Bearer wrong", 401),
        ("/health", "Bearer wrong", 200),
        ("/health", "", 200),
        // The header of Anthropic's clients.
        ("/v1/models", "x-api-key: secret", 200),
        ("/v1/models", "x-api-key: wrong", 401),
    ] {
        let head = match key {
            "" => String::new(),
            key if key.starts_with("x-") => format!("{key}\r\n"),
            key => format!("Authorization: {key}\r\n"),
        };
        let answer = receive(send(server.address(), "GET", path, &head, "")).unwrap();
        assert_eq!(answer.status, want, "{path} {key}: {answer:?}");
    }
}

#[test]
fn bodies_and_constraints_have_limits() {
    let server = server(|options| {
        options.max_body = 20_000;
        options.max_constraint = 2_000;
        options.body_timeout = Duration::from_millis(300);
    });
    let address = server.address();
    let long = "x".repeat(30_000);
    assert_eq!(chat(address, json!({"user": long})).status, 413);
    let words: Vec<String> = (0..500).map(|i| format!("word {i}")).collect();
    let refused = chat(address, json!({"guided_choice": words}));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("too_complex")));
    let prompt = json!({"messages": [{"role": "user", "content": "word ".repeat(3_000)}]});
    let refused = chat(address, prompt);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("context_length_exceeded")));
    let refused = receive(send(address, "POST", "/v1/chat/completions", "", "{\"messages\": [")).unwrap();
    assert_eq!(refused.status, 400);
    // A body that never comes.
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        .unwrap();
    assert_eq!(receive(slow).unwrap().status, 408);
    // Headers that never end: the connection is closed.
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(b"POST /v1/completions HTTP/1.1\r\nHost: loc").unwrap();
    assert!(receive(slow).is_none_or(|answer| answer.status == 408));
}

#[test]
fn a_full_queue_is_said() {
    let server = server(|options| (options.scheduler.queue, options.scheduler.batch) = (2, 1));
    let answer = chat(server.address(), json!({"n": 16, "max_tokens": 1000}));
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("retry-after: 1"), "{answer:?}");
    assert_eq!(answer.json()["error"]["code"], "busy");
    // Those that were taken before are cancelled, and make room.
    let later = || chat(server.address(), json!({"guided_regex": "a"}));
    let answers = std::iter::repeat_with(later);
    assert_eq!(answers.into_iter().find(|answer| answer.status != 503).unwrap().content(), "a");
}

#[test]
fn an_answer_has_a_time_limit() {
    let server = server(|options| options.timeout = Duration::from_millis(30));
    let more = json!({"n": 64, "max_tokens": 2000, "guided_regex": "[a-z ]{1800,}"});
    assert_eq!(chat(server.address(), more.clone()).status, 504);
    let mut streamed = chat_body(more);
    streamed["stream"] = true.into();
    let answer =
        receive(send(server.address(), "POST", "/v1/chat/completions", "", &streamed.to_string())).unwrap();
    assert!(answer.status == 504 || answer.body.contains("\"code\":\"timeout\""), "{answer:?}");
}

#[test]
fn unknown_paths_and_methods_are_faults() {
    let server = server(|_| {});
    let address = server.address();
    assert_eq!(get(address, "/v1/embeddings").status, 404);
    assert_eq!(get(address, "/v1/chat/completions").status, 405);
    assert_eq!(get(address, "/v1/models/none").status, 404);
}
