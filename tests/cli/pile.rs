//! Many texts: folders, tables, an output that is resumed, kills at any moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ffwd_testkit::random::Random;
use serde_json::Value;

use crate::program::{ffwd, ffwd_reading, texts};

/// A schema with short records.
const SCHEMA: &str = r#"{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}"#;

pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.write("s.json", SCHEMA);
        folder
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Runs `ffwd extract` on a file or folder of this one.
    pub fn extract(&self, from: &str, more: &[&str]) -> (i32, String, String) {
        let (from, schema) = (self.path(from), self.path("s.json"));
        let output = ffwd(&[&["extract", &from, "-s", &schema, "--batch", "4"], more].concat());
        let (out, err) = texts(&output);
        (output.status.code().unwrap(), out, err)
    }

    pub fn lines(&self, name: &str) -> Vec<Value> {
        lines(&std::fs::read_to_string(self.path(name)).unwrap())
    }
}

pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn sources(lines: &[Value], below: &Path) -> Vec<String> {
    let source = |line: &Value| {
        let source = Path::new(line["source"].as_str().unwrap());
        source.strip_prefix(below).unwrap_or(source).to_str().unwrap().to_owned()
    };
    lines.iter().map(source).collect()
}

#[test]
fn folders_and_patterns_are_read_by_name() {
    let folder = Folder::new();
    for name in ["in/b.txt", "in/a.txt", "in/deep/er/c.txt", "in/deep/d.md", "in/.hidden/e.txt", "in/.f.txt"]
    {
        folder.write(name, &format!("The text of {name}"));
    }
    let inside = Path::new(folder.0.path()).join("in");
    let (code, out, err) = folder.extract("in", &[]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(sources(&lines(&out), &inside), ["a.txt", "b.txt", "deep/d.md", "deep/er/c.txt"]);
    assert!(lines(&out).iter().all(|line| line["record"]["ok"].is_boolean() && line["key"].is_null()));
    let (_, out, _) = folder.extract("in", &["--include", "*.txt"]);
    assert_eq!(sources(&lines(&out), &inside), ["a.txt", "b.txt", "deep/er/c.txt"]);
    let (_, out, _) = folder.extract("in/**/[cd].*", &[]);
    assert_eq!(sources(&lines(&out), &inside), ["deep/d.md", "deep/er/c.txt"]);
    for (from, more) in [("in/*.pdf", &[][..]), ("in", &["--include", "*.pdf"])] {
        let (code, out, err) = folder.extract(from, more);
        assert_eq!((code, &*out), (2, ""), "{err}");
        assert!(err.contains("no file is there, or none matches"), "{err}");
    }
    let (code, _, err) = folder.extract("in", &["--include", "[z"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn fields_of_lines_and_rows_are_texts() {
    let folder = Folder::new();
    folder.write(
        "mails.jsonl",
        "\u{feff}{\"body\": \"one\\ntext\", \"id\": 7}\n\n{\"body\": \"two\"}\r\n{\"id\": 9}\n{\"body\": 3}\nnonsense\n",
    );
    folder.write("mails.csv", "id,body\n1,\"a, \"\"b\"\"\nc\"\n2,d\n3\n");
    let fields = ["--text-field", "body", "--id-field", "id"];
    let (code, out, err) = folder.extract("mails.jsonl", &fields);
    let got = lines(&out);
    assert_eq!(code, 1, "{err}");
    let of = |line: &Value| (line["id"].clone(), line["record"]["ok"].is_boolean());
    assert_eq!(
        got.iter().map(of).collect::<Vec<_>>(),
        [
            (7.into(), true),
            (Value::Null, true),
            (Value::Null, false),
            (Value::Null, false),
            (Value::Null, false)
        ]
    );
    for (line, message) in [(4, "no field `body`"), (5, "is not a string"), (6, "not valid JSON")] {
        assert!(err.contains(&format!("mails.jsonl:{line}")) && err.contains(message), "{err}");
    }
    let (code, out, err) = folder.extract("mails.csv", &fields);
    assert_eq!(code, 1, "{err}");
    assert_eq!(
        lines(&out).iter().map(of).collect::<Vec<_>>(),
        [("1".into(), true), ("2".into(), true), (Value::Null, false)]
    );
    assert!(err.contains("mails.csv:4: not valid CSV") || err.contains("not valid CSV"), "{err}");
    let (code, _, err) = folder.extract("mails.csv", &["--text-field", "text"]);
    assert!(code == 1 && err.contains("the columns are `id`, `body`"), "{code} {err}");
    // From standard input.
    let schema = folder.path("s.json");
    let output = ffwd_reading(&["extract", "-", "-s", &schema, "--text-field", "t"], "{\"t\": \"x\"}\n");
    assert_eq!(lines(&texts(&output).0).len(), 1);
}

#[test]
fn an_output_is_continued_and_never_overwritten() {
    let folder = Folder::new();
    for i in 0..6 {
        // Two texts are the same, one is blank.
        folder.write(&format!("in/{i}.txt"), &format!("Text {}", i / 2 * 2));
    }
    folder.write("in/6.txt", " \n");
    let out = folder.path("out.jsonl");
    let (code, printed, err) = folder.extract("in", &["-o", &out]);
    assert_eq!((code, &*printed), (1, ""), "{err}");
    let whole = folder.lines("out.jsonl");
    assert_eq!(
        sources(&whole, &folder.0.path().join("in")),
        ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt", "5.txt"]
    );
    let failures = folder.lines("out.jsonl.failures");
    assert!(failures.len() == 1 && failures[0]["error"].as_str().unwrap().contains("blank"), "{failures:?}");
    let (code, _, err) = folder.extract("in", &["-o", &out]);
    assert!(code == 2 && err.contains("--resume"), "{err}");
    assert_eq!(folder.lines("out.jsonl"), whole);
    // Cut within the fourth line.
    let text = std::fs::read_to_string(&out).unwrap();
    let end: usize = text.split_inclusive('\n').take(3).map(str::len).sum();
    std::fs::write(&out, &text[..end + 20]).unwrap();
    folder.write("in/6.txt", "Mended");
    let (code, _, err) = folder.extract("in", &["-o", &out, "--resume"]);
    assert!(code == 0 && err.contains("4 of 4 records (3 were done)"), "{err}");
    assert_eq!(folder.lines("out.jsonl")[..6], whole);
    assert!(!Path::new(&folder.path("out.jsonl.failures")).exists());
    // A text that failed at first has its record at its place, as the table of the input has it.
    folder.write("in/1.txt", " ");
    let later = folder.path("later.jsonl");
    let (code, _, err) = folder.extract("in", &["-o", &later]);
    assert_eq!(code, 1, "{err}");
    folder.write("in/1.txt", "Text 0");
    let (code, _, err) = folder.extract("in", &["-o", &later, "--resume"]);
    assert!(code == 0 && err.contains("1 of 1 records (6 were done)"), "{err}");
    let names = sources(&folder.lines("later.jsonl"), &folder.0.path().join("in"));
    assert_eq!(names, ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt", "5.txt", "6.txt"]);
    // Other options make other records.
    let (code, _, err) = folder.extract("in", &["-o", &out, "--resume", "--instructions", "Be brief."]);
    assert!(code == 0 && err.contains("7 of 7 records,"), "{err}");
    // A table is made of its journal.
    let table = folder.path("out.csv");
    let (code, _, err) = folder.extract("in", &["-o", &table]);
    assert_eq!(code, 0, "{err}");
    let text = std::fs::read_to_string(&table).unwrap();
    assert!(text.starts_with("_source,ok\n") && text.lines().count() == 8, "{text}");
    std::fs::remove_file(&table).unwrap();
    let (code, _, err) = folder.extract("in", &["-o", &table, "--resume"]);
    assert!(code == 0 && err.contains("(7 were done)"), "{err}");
    assert_eq!(std::fs::read_to_string(&table).unwrap(), text);
    // In the folder that is read.
    let inside = folder.path("in/out.csv");
    for more in [&["-o", &inside][..], &["-o", &inside, "--resume"]] {
        let (code, _, err) = folder.extract("in", more);
        assert!(code == 0 && folder.lines("in/out.csv.journal").len() == 7, "{err}");
    }
    let (code, _, err) = folder.extract("in", &["-o", &folder.path("none/out.jsonl")]);
    assert!(code == 1 && err.contains("none/out.jsonl"), "{err}");
}

#[test]
fn too_many_failures_stop_the_run() {
    let folder = Folder::new();
    for i in 0..30 {
        folder.write(&format!("in/{i:02}.txt"), if i < 5 { "A text" } else { " " });
    }
    let out = folder.path("out.jsonl");
    let (code, _, err) = folder.extract("in", &["-o", &out, "--max-failures", "3"]);
    assert!(code == 1 && err.contains("--max-failures"), "{err}");
    assert_eq!(folder.lines("out.jsonl").len(), 5);
    let failures = folder.lines("out.jsonl.failures").len();
    assert!((3..30).contains(&failures), "{failures}");
}

/// Returns the process that extracts a folder to a file.
fn start(folder: &Folder, out: &str) -> std::process::Child {
    let (from, schema) = (folder.path("in"), folder.path("s.json"));
    Command::new(env!("CARGO_BIN_EXE_ffwd"))
        .args(["extract", &from, "-s", &schema, "-o", out, "--resume", "--batch", "8"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The run of docs/benchmarks.md has 2,000 texts and 200 kills: `FFWD_KILLS=200`.
#[test]
fn runs_that_are_killed_at_any_moment_lose_and_repeat_nothing() {
    let kills: usize = std::env::var("FFWD_KILLS").map_or(8, |n| n.parse().unwrap());
    let folder = Folder::new();
    let count = 10 * kills;
    for i in 0..count {
        // Some texts occur twice.
        folder.write(&format!("in/{i:05}.txt"), &format!("The text {}", i - usize::from(i % 7 == 3)));
    }
    let out = folder.path("out.jsonl");
    let (mut random, mut killed) = (Random::new(5), 0);
    while killed < kills {
        let mut child = start(&folder, &out);
        let len = || std::fs::metadata(&out).map_or(0, |file| file.len());
        let before = len();
        // One in four is killed as it starts, the others while they write.
        let waits = !random.chance(25);
        while waits && len() == before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(random.next() % 8000));
        child.kill().unwrap();
        // A run that had ended was not killed.
        if child.wait().unwrap().success() {
            break;
        }
        killed += 1;
    }
    assert!(killed > 0, "the first run was not killed");
    let (code, _, err) = folder.extract("in", &["-o", &out, "--resume"]);
    assert_eq!(code, 0, "{err}");
    let records: BTreeMap<String, Value> = sources(&folder.lines("out.jsonl"), &folder.0.path().join("in"))
        .into_iter()
        .zip(folder.lines("out.jsonl"))
        .collect();
    assert_eq!((records.len(), folder.lines("out.jsonl").len()), (count, count), "each text once");
    eprintln!("{killed} kills, {count} texts");
}

#[cfg(unix)]
#[test]
fn an_interrupt_finishes_the_texts_in_work() {
    // Enough for a second or two.
    const COUNT: usize = 1000;
    let folder = Folder::new();
    (0..COUNT).for_each(|i| folder.write(&format!("in/{i:04}.txt"), &format!("The text {i}")));
    let out = folder.path("out.jsonl");
    let mut child = start(&folder, &out);
    // Wait for the first record.
    let begun = || std::fs::read(&out).is_ok_and(|text| !text.is_empty());
    while !begun() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let done = folder.lines("out.jsonl").len();
    assert!((1..COUNT).contains(&done), "{done}");
    let (code, _, err) = folder.extract("in", &["-o", &out, "--resume"]);
    assert!(code == 0 && err.contains(&format!("({done} were done)")), "{err}");
    assert_eq!(folder.lines("out.jsonl").len(), COUNT);
}
