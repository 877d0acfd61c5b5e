//! What the program prints for command lines: `tests/cli/transcripts/NAME.trycmd` has commands, each with
//! its whole output and its exit code. `TRYCMD=overwrite` writes what is printed in their place.
//!
//! `[..]` stands for any text within a line, `...` for any lines: times, and what a model chooses. A
//! transcript runs in a copy of the folder `NAME.in`; `$ROOT` is the root of the project. A backslash of
//! the output is shown as `/`.
//!
//! # Alternatives considered
//!
//! Parts of messages in lists of tests: a changed text goes unseen, and so does what is printed beside it.

use std::path::Path;

fn check(name: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_ffwd"));
    let folder = program.parent().unwrap().display();
    trycmd::TestCases::new()
        .env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()))
        .env("ROOT", env!("CARGO_MANIFEST_DIR"))
        .env("COLUMNS", "100")
        .register_bin("sh", Path::new("/bin/sh"))
        .register_bin("ffwd", program)
        .case(format!("tests/cli/transcripts/{name}.trycmd"));
}

/// A test for each transcript, so that they run side by side.
macro_rules! transcripts {
    ($($(#[$condition:meta])* $name:ident)*) => {
        $($(#[$condition])* #[test] fn $name() { check(stringify!($name)); })*
    };
}

transcripts! {
    extract
    generate
    inputs
    inspect
    refusals
    resume
    tables
    #[cfg(feature = "bench")]
    bench
    #[cfg(feature = "hub")]
    models
    #[cfg(feature = "parquet")]
    parquet
}
