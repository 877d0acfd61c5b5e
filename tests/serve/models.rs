//! Several models: each has its name, and is loaded when it is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ffwd::serve::{BoundServer, ModelSource, ServeOptions};
use ffwd::{Engine, Error, ErrorKind};
use serde_json::json;

use ffwd_testkit::adapter_file;

use crate::client::{chat, embedded, get};
use crate::program::Program;

#[test]
fn a_model_is_loaded_once_and_when_asked_for() {
    let loads = Arc::new(AtomicUsize::new(0));
    let counted = loads.clone();
    let second = ModelSource {
        name: "second".into(),
        load: Box::new(move |markers| {
            counted.fetch_add(1, Ordering::Relaxed);
            Engine::builder().markers(markers).without_draft_model().build()
        }),
        tool_style: None,
    };
    let broken = ModelSource {
        name: "broken".into(),
        load: Box::new(|_| Err(Error::new(ErrorKind::Io, "no such file"))),
        tool_style: None,
    };
    let mut options = ServeOptions::default();
    options.address.set_port(0);
    let server = BoundServer::bind(vec![embedded("first"), second, broken], options).unwrap().spawn();
    let address = server.address();
    let loaded = || get(address, "/health").json()["loaded"].clone();
    assert_eq!((loaded(), loads.load(Ordering::Relaxed)), (json!(["first"]), 0));
    let ask = |model: &str| chat(address, json!({"model": model, "guided_regex": "a"}));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| ask("second").json())).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| answer["model"] == "second"), "{answers:?}");
    assert_eq!((loaded(), loads.load(Ordering::Relaxed)), (json!(["first", "second"]), 1));
    assert_eq!(chat(address, json!({"guided_regex": "a"})).json()["model"], "first");
    let refused = ask("broken");
    assert_eq!(refused.status, 503);
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("no such file"));
    let names = get(address, "/v1/models").json();
    let names: Vec<_> = names["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    assert_eq!(names, ["first", "second", "broken"]);
}

/// A base and its adapted copy, from one file: other answers, each with its own cached prompt.
#[test]
fn a_base_with_an_adapter_is_a_model_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("base.gguf"), ffwd::model::embedded::TARGET_GGUF).unwrap();
    std::fs::write(path("tokenizer.json"), ffwd::model::embedded::TOKENIZER_JSON).unwrap();
    adapter_file::write(&dir.path().join("tuned"), 0.05);
    let (base, tuned) = (path("base.gguf"), format!("tuned={}+{}", path("base.gguf"), path("tuned")));
    let server = Program::serve(&["--model", &base, "--model", &tuned]);
    let ask = |model: &str| {
        let request = json!({"model": model, "guided_regex": "[a-z ]{30}"});
        chat(server.address, request).json()["choices"][0]["message"]["content"].clone()
    };
    let answers = [ask("base"), ask("tuned"), ask("base"), ask("tuned")];
    assert!(answers[0].as_str().is_some_and(|text| text.len() == 30), "{answers:?}");
    assert!(answers[0] != answers[1] && answers[0] == answers[2] && answers[1] == answers[3], "{answers:?}");
}
