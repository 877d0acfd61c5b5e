//! The program as a child process.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs it in the root of the project without any input.
pub(crate) fn ffwd(args: &[&str]) -> Output {
    ffwd_reading(args, "")
}

/// Runs it with a text on standard input.
pub(crate) fn ffwd_reading(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ffwd"))
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that has refused its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Runs it, which must succeed, and returns standard output and standard error.
pub(crate) fn succeeds(args: &[&str]) -> (String, String) {
    let output = ffwd(args);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{args:?}: {err}");
    (out, err)
}

/// Standard output and standard error.
pub(crate) fn texts(output: &Output) -> (String, String) {
    (String::from_utf8(output.stdout.clone()).unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}

/// A schema with short records.
pub(crate) const SCHEMA: &str =
    r#"{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}"#;

/// A temporary folder with that schema in `s.json`.
pub(crate) struct Folder(pub tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.write("s.json", SCHEMA);
        folder
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Runs `ffwd extract` on a file or folder of this one.
    pub(crate) fn extract(&self, from: &str, more: &[&str]) -> (i32, String, String) {
        let (from, schema) = (self.path(from), self.path("s.json"));
        let output = ffwd(&[&["extract", &from, "-s", &schema, "--batch", "4"], more].concat());
        let (out, err) = texts(&output);
        (output.status.code().unwrap(), out, err)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<Value> {
        lines(&self.read(name))
    }
}

pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
