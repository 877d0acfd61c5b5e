//! Compares the header and the list of functions with the sources of the C library, or writes them.
//!
//!     cargo run --locked --manifest-path crates/c/header/Cargo.toml [-- --write]

use std::path::PathBuf;
use std::process::ExitCode;

/// The files whose items the header has, in its order.
const SOURCES: [&str; 6] = ["error", "callbacks", "vocabulary", "constraint", "grammar", "matcher"];

fn main() -> ExitCode {
    let write = std::env::args().nth(1).is_some_and(|argument| argument == "--write");
    let header = header();
    let functions = functions(&header);
    let mut same = true;
    for (path, made) in [("include/ffwd.h", header), ("functions.txt", functions)] {
        let path = crate_folder().join(path);
        if write {
            std::fs::write(&path, made).expect("the file can be written");
        } else if std::fs::read_to_string(&path).unwrap_or_default() != made {
            eprintln!("{} differs from the sources; `--write` writes it anew", path.display());
            same = false;
        }
    }
    if same { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn crate_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn header() -> String {
    let config = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("cbindgen.toml");
    let mut builder =
        cbindgen::Builder::new().with_config(cbindgen::Config::from_file(config).expect("cbindgen.toml"));
    for source in SOURCES {
        builder = builder.with_src(crate_folder().join("src").join(source).with_extension("rs"));
    }
    let mut header = Vec::new();
    builder.generate().expect("the sources have a header").write(&mut header);
    String::from_utf8(header).expect("the header is UTF-8")
}

/// The names of the functions in the header, one a line.
fn functions(header: &str) -> String {
    let names = header.match_indices('(').map(|(at, _)| {
        let before = &header[..at];
        let name = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        &before[name.len()..]
    });
    let mut names: Vec<&str> = names.filter(|name| name.starts_with("ffwd_")).collect();
    names.sort_unstable();
    names.join("\n") + "\n"
}
