//! Fetching models: from a cache in the layout of the hub's tools, and from a server on this
//! machine.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use ffwd::ErrorKind;
use ffwd::model::hub::{FetchOptions, fetch};
use ffwd::model::{LoadOptions, Model};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// What the branch `other` points to.
const OTHER: &str = "89abcdef0123456789abcdef0123456789abcdef";
const CONFIG: &[u8] = include_bytes!("../../assets/shakespeare-char-1m/config.json");
const WEIGHTS: &[u8] = include_bytes!("../../assets/shakespeare-char-1m/model.safetensors");

fn offline(dir: &Path) -> FetchOptions {
    FetchOptions { offline: true, quiet: true, cache_dir: Some(dir.to_owned()), ..FetchOptions::default() }
}

#[test]
fn a_cached_model_loads_without_a_network() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("models--someone--tiny");
    let snapshot = repo.join("snapshots").join(COMMIT);
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::create_dir_all(repo.join("refs")).unwrap();
    std::fs::write(repo.join("refs/main"), COMMIT).unwrap();
    let options = offline(dir.path());
    let e = fetch("someone/tiny", None, &options).unwrap_err();
    assert!(e.message().contains("no config.json"), "{e}");
    std::fs::write(snapshot.join("config.json"), CONFIG).unwrap();
    std::fs::write(snapshot.join("model.safetensors"), WEIGHTS).unwrap();
    for revision in [None, Some("main"), Some(COMMIT)] {
        let folder = fetch("someone/tiny", revision, &options).unwrap();
        assert_eq!(folder, snapshot);
        Model::from_dir(folder, &LoadOptions::default()).unwrap();
    }
    let e = fetch("someone/tiny", Some("other"), &options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.hint_text().unwrap().contains("offline"));
    assert!(fetch("someone/absent", None, &options).is_err());
    assert!(fetch("someone/tiny", None, &FetchOptions { gguf: Some("x.gguf".into()), ..options }).is_err());
}

#[test]
fn names_that_are_none_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for repo in ["", "tiny", "/", "a/", "/b", "a/b/c", "../x", "a/..", "a b/c", "https://x/y"] {
        let e = fetch(repo, None, &offline(dir.path())).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidOption, "{repo}");
    }
    for path in ["..", "../main", "a//b", "/etc", ""] {
        assert_eq!(
            fetch("a/b", Some(path), &offline(dir.path())).unwrap_err().kind(),
            ErrorKind::InvalidOption
        );
    }
}

/// Answers the requests for one small repository, as far as this test needs them.
fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap_or("").to_owned(), words.next().unwrap_or("").to_owned());
    while reader.read_line(&mut line)? > 2 {}
    let tree = format!(
        r#"[{{"type":"file","path":"config.json","oid":"a","size":{}}},
            {{"type":"file","path":"model.safetensors","oid":"b","size":{}}},
            {{"type":"file","path":"pytorch_model.bin","oid":"c","size":9}}]"#,
        CONFIG.len(),
        WEIGHTS.len()
    );
    // The revision follows `tree`, `revision` or `resolve`, as a branch or a commit.
    let commit = if path.split('/').any(|p| p == "other" || p == OTHER) { OTHER } else { COMMIT };
    let info = format!(r#"{{"id":"someone/tiny","sha":"{commit}"}}"#);
    let body: Option<&[u8]> = match path.split('?').next().unwrap_or("") {
        p if p.starts_with("/api/models/someone/tiny/tree/") => Some(tree.as_bytes()),
        p if p.starts_with("/api/models/someone/tiny") => Some(info.as_bytes()),
        p if p.starts_with("/someone/tiny/resolve/") && p.ends_with("/config.json") => Some(CONFIG),
        p if p.starts_with("/someone/tiny/resolve/") && p.ends_with("/model.safetensors") => Some(WEIGHTS),
        _ => None,
    };
    let (status, body) = match body {
        Some(b) => ("200 OK", b),
        None => ("404 Not Found", &b"{}"[..]),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"{:x}\"\r\nX-Repo-Commit: {commit}\r\n\
         Content-Type: application/json\r\nConnection: close\r\n\r\n",
        body.len(),
        body.len()
    )?;
    if method != "HEAD" {
        stream.write_all(body)?;
    }
    stream.flush()
}

/// A server for one small repository; returns its address.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

#[test]
fn revisions_are_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    let online = FetchOptions {
        endpoint: Some(server()),
        cache_dir: Some(dir.path().to_owned()),
        // With the bar, which shows nothing where there is no terminal.
        quiet: false,
        ..FetchOptions::default()
    };
    let other = fetch("someone/tiny", Some("other"), &online).unwrap();
    assert!(other.ends_with(OTHER), "{}", other.display());
    // Offline, only what was fetched is there, by branch and by commit.
    let cached = |revision| fetch("someone/tiny", revision, &offline(dir.path()));
    assert_eq!(cached(Some("other")).unwrap(), other);
    assert_eq!(cached(Some(OTHER)).unwrap(), other);
    assert!(cached(None).is_err());
    let main = fetch("someone/tiny", None, &online).unwrap();
    assert!(main.ends_with(COMMIT), "{}", main.display());
    assert_eq!(cached(None).unwrap(), main);
    assert_eq!(cached(Some("other")).unwrap(), other);
    // Without a server, what is not in the cache is an error with a hint, not a wait.
    let nowhere = FetchOptions { endpoint: Some("http://127.0.0.1:1".into()), ..online };
    let e = fetch("someone/else", None, &nowhere).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.hint_text().unwrap().contains("connection"), "{e}");
}

#[test]
fn a_model_is_downloaded_once_and_then_cached() {
    let address = server();
    let dir = tempfile::tempdir().unwrap();
    let online = FetchOptions {
        endpoint: Some(address),
        quiet: true,
        cache_dir: Some(dir.path().to_owned()),
        ..FetchOptions::default()
    };
    let folder = fetch("someone/tiny", None, &online).unwrap();
    assert!(!folder.join("pytorch_model.bin").exists(), "pickled weights are not fetched");
    let model = Model::from_dir(&folder, &LoadOptions::default()).unwrap();
    let embedded = Model::embedded_shakespeare(&LoadOptions::default()).unwrap();
    let logits = |m: &Model| m.forward(&[1, 2], &mut m.new_cache().unwrap(), 1..2).unwrap();
    assert_eq!(logits(&model), logits(&embedded));
    assert_eq!(fetch("someone/tiny", Some(COMMIT), &offline(dir.path())).unwrap(), folder);
}
