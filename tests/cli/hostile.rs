//! Hostile input and output of `ffwd extract`: one clear error each, and nothing is lost.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::pile::{Folder, lines};

fn count_errors(err: &str) -> usize {
    err.lines().filter(|line| line.starts_with("error: ")).count()
}

/// Runs it and checks the exit code, the number of errors, and parts of standard error.
fn fails(folder: &Folder, from: &str, more: &[&str], code: i32, errors: usize, parts: &[&str]) {
    let (got, _, err) = folder.extract(from, more);
    assert_eq!(got, code, "{from}: {err}");
    assert_eq!(count_errors(&err), errors, "{from}: {err}");
    for part in parts {
        assert!(err.contains(part), "{from}, no {part:?}: {err}");
    }
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn inputs_that_are_no_texts() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("empty/deep")).unwrap();
    fails(&folder, "empty", &[], 2, 1, &["empty", "no file is there"]);
    fails(&folder, "absent", &[], 1, 1, &["absent", "No such file"]);
    // No texts at all, and names that are no files.
    for (name, text) in [("none.jsonl", ""), ("none.csv", "body\n")] {
        folder.write(name, text);
        fails(&folder, name, &["--text-field", "body"], 0, 0, &["0 of 0 records"]);
    }
    folder.write("empty.csv", "");
    fails(&folder, "empty.csv", &["--text-field", "body"], 1, 1, &["empty.csv", "no column is named `body`"]);
    std::fs::create_dir_all(folder.path("dir.csv")).unwrap();
    fails(&folder, "dir.csv", &["--text-field", "body"], 2, 1, &["dir.csv", "no file is there"]);
    // Bytes of another encoding, among good texts.
    folder.write("in/a.txt", "Good");
    std::fs::write(folder.path("in/b.txt"), b"Stra\xdfe").unwrap();
    folder.write("in/c.txt", "");
    folder.write("in/d.txt", "Good, too");
    let out = folder.path("out.jsonl");
    fails(
        &folder,
        "in",
        &["-o", &out],
        1,
        2,
        &["b.txt", "not UTF-8 from byte 4", "c.txt", "the text is empty"],
    );
    assert_eq!(folder.lines("out.jsonl").len(), 2);
    assert_eq!(folder.lines("out.jsonl.failures").len(), 2);
}

#[cfg(unix)]
#[test]
fn names_that_are_no_files() {
    let folder = Folder::new();
    folder.write("in/a.txt", "Good");
    std::os::unix::fs::symlink(folder.path("nowhere"), folder.path("in/dangling.txt")).unwrap();
    fails(&folder, "in", &[], 1, 1, &["dangling.txt", "No such file"]);
    std::fs::remove_file(folder.path("in/dangling.txt")).unwrap();
    // A folder that contains itself.
    std::os::unix::fs::symlink(folder.path("in"), folder.path("in/loop")).unwrap();
    fails(&folder, "in", &[], 1, 1, &["loop"]);
    std::fs::remove_file(folder.path("in/loop")).unwrap();
    // A pipe that no program writes to is left out of a folder: reading it would never end.
    let made = Command::new("mkfifo").arg(folder.path("in/pipe.txt")).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mkfifo");
        return;
    }
    let (code, out, err) = folder.extract("in", &[]);
    assert_eq!((code, lines(&out).len()), (0, 1), "{err}");
}

#[test]
fn broken_tables() {
    let folder = Folder::new();
    let fields = ["--text-field", "body"];
    // A quote without end takes all that follows; a row of another length is an error of its own.
    folder.write("rows.csv", "id,body\n1,a\n2,b,c\n3,d\n");
    fails(&folder, "rows.csv", &fields, 1, 1, &["rows.csv:3", "not valid CSV"]);
    std::fs::write(folder.path("bytes.csv"), b"id,body\n1,a\n2,\x81\n3,d\n").unwrap();
    fails(
        &folder,
        "bytes.csv",
        &fields,
        1,
        1,
        &["bytes.csv:3", "line 3 is not UTF-8", "--encoding windows-1252"],
    );
    folder.write("lines.jsonl", "{\"body\": \"a\"}\n{\"body\": \"b\"\n[1]\n");
    fails(&folder, "lines.jsonl", &fields, 1, 2, &["lines.jsonl:2", "lines.jsonl:3"]);
    std::fs::write(folder.path("nul.jsonl"), [0_u8; 3000]).unwrap();
    fails(&folder, "nul.jsonl", &fields, 1, 1, &["nul.jsonl:1"]);
}

/// Runs a command in a shell.
#[cfg(unix)]
fn shell(command: &str) -> (Option<i32>, String) {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing() {
    let folder = Folder::new();
    for i in 0..60 {
        folder.write(&format!("in/{i:02}.txt"), &format!("Text {i}"));
    }
    let ffwd = env!("CARGO_BIN_EXE_ffwd");
    let (from, schema) = (folder.path("in"), folder.path("s.json"));
    let run = |before: &str, out: &str, more: &str| {
        shell(&format!("{before} exec {ffwd} extract {from} -s {schema} --batch 4 -o {out} {more}"))
    };
    // A device that is always full, and that gives zeros without end.
    let (code, err) = run("", "/dev/full", "--resume");
    assert!(code == Some(2) && err.contains("not a regular file"), "{code:?} {err}");
    // A limit on the size of files, as a full disk: in blocks of 512 bytes.
    for name in ["out.jsonl", "out.csv", "out.parquet"] {
        let out = folder.path(name);
        let limit = "trap '' XFSZ; ulimit -f 4;";
        let (code, err) = run(limit, &out, "");
        assert!(code == Some(1) && count_errors(&err) == 1, "{name}: {code:?} {err}");
        assert!(err.contains(name) && err.contains("--resume"), "{name}: {err}");
        let journal = if name == "out.jsonl" { name.to_owned() } else { format!("{name}.journal") };
        let done = folder.lines(&journal).len();
        assert!((1..60).contains(&done), "{name}: {done}");
        let (code, err) = run("", &out, "--resume");
        assert!(code == Some(0) && err.contains(&format!("({done} were done)")), "{name}: {err}");
        assert_eq!(folder.lines(&journal).len(), 60, "{name}");
        // Now a table that does not fit.
        if name != "out.jsonl" {
            let whole = std::fs::read(&out).unwrap();
            let (code, err) = run("trap '' XFSZ; ulimit -f 1;", &out, "--resume");
            assert!(code == Some(1) && err.contains("--resume"), "{name}: {code:?} {err}");
            assert_eq!(std::fs::read(&out).unwrap(), whole, "the table is what it was");
            assert!(!Path::new(&format!("{out}.partial")).exists());
        }
    }
}

#[test]
fn outputs_that_exist() {
    let folder = Folder::new();
    folder.write("in/a.txt", "Text");
    for name in ["out.jsonl", "out.csv", "out.parquet", "out.csv.journal"] {
        folder.write(name, "mine\n");
        let out = folder.path(name.strip_suffix(".journal").unwrap_or(name));
        fails(&folder, "in", &["-o", &out], 2, 1, &[name.split('.').next().unwrap(), "exists", "--resume"]);
        assert_eq!(std::fs::read_to_string(folder.path(name)).unwrap(), "mine\n");
    }
    // Not a journal, so nothing is appended.
    let out = folder.path("out.jsonl");
    fails(&folder, "in", &["-o", &out, "--resume"], 2, 1, &["not a journal", "line 1"]);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "mine\n");
    std::fs::create_dir(folder.path("folder")).unwrap();
    fails(&folder, "in", &["-o", &folder.path("folder"), "--resume"], 1, 1, &["folder"]);
}

#[test]
fn events_are_lines_of_json() {
    let folder = Folder::new();
    for (name, text) in [("a", "Text"), ("b", " "), ("c", "More")] {
        folder.write(&format!("in/{name}.txt"), text);
    }
    let (code, out, err) = folder.extract("in", &["--log-json"]);
    assert_eq!((code, lines(&out).len()), (1, 3), "{err}");
    let events = lines(&err);
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("start", "end"), "{err}");
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<&Value>>();
    assert_eq!(events[0]["texts"], 3);
    assert!(of("record").len() == 2 && of("record")[0]["stats"]["tokens"].as_u64() > Some(0), "{err}");
    let failure = of("failure")[0];
    assert!(failure["source"].as_str().unwrap().ends_with("b.txt") && failure["kind"] == "invalid_option");
    let end = of("end")[0];
    assert_eq!((&end["records"], &end["failures"], &end["stopped"]), (&2.into(), &1.into(), &Value::Null));
    let tokens: u64 = of("record").iter().map(|event| event["stats"]["tokens"].as_u64().unwrap()).sum();
    assert_eq!(end["tokens"], tokens);
    let (code, _, err) = folder.extract("in/a.txt", &["--log-json"]);
    assert!(code == 2 && err.contains("--stats"), "{err}");
}
