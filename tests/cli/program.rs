//! The program as a child process.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs it in the root of the project without any input.
pub fn ffwd(args: &[&str]) -> Output {
    ffwd_reading(args, "")
}

/// Runs it with a text on standard input.
pub fn ffwd_reading(args: &[&str], input: &str) -> Output {
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

/// Standard output and standard error.
pub fn texts(output: &Output) -> (String, String) {
    (String::from_utf8(output.stdout.clone()).unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}
