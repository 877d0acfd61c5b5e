//! Tests that need a process of their own: for environment variables that a library reads once, or
//! for measurements of the whole process. The test runs its own program once more, with its name as
//! the filter.
//!
//! # Alternatives considered
//!
//! - A test binary for each such test: the linker's work for each of them, with a folder and a
//!   target in the manifest.
//! - `std::env::set_var`: unsafe while other threads run, and without effect on a library that has
//!   read the variable.

use std::process::Command;

use crate::env;

/// Whether this process is the child that runs the test `name` of the module `module` alone.
///
/// In the parent it starts the child with `variables` in its environment, waits for it, and returns
/// `false`. It panics with the child's output if the test fails there.
///
/// `module` is `module_path!()`.
pub fn is_child(module: &str, name: &str, variables: &[(&str, &str)]) -> bool {
    // The harness names tests without the name of the crate.
    let module = module.split_once("::").map_or("", |m| m.1);
    let name = if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") };
    if env::test_child().as_ref() == Some(&name) {
        return true;
    }
    let program = std::env::current_exe().expect("the path of the tests");
    let output = Command::new(program)
        .args([&name, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(env::TEST_CHILD, &name)
        .envs(variables.iter().copied())
        .output()
        .expect("the tests start once more");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} in a process of its own: {}\n{text}{errors}", output.status);
    assert!(text.contains(" 1 passed"), "no test is named {name}: {text}");
    print!("{text}");
    eprint!("{errors}");
    false
}
