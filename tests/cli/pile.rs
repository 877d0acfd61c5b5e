//! Many texts: folders, tables, an output that is resumed, kills at any moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ffwd_testkit::env::oracle_cases;
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
    assert!(err.contains("mails.csv:4") && err.contains("line 5 has 1 fields, the header has 2"), "{err}");
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
    // Other options make other records, which are never mixed with these.
    let before = std::fs::read_to_string(&out).unwrap();
    let brief = ["-o", &out, "--instructions", "Be brief.", "--max-tokens", "99"];
    let (code, _, err) = folder.extract("in", &[&brief[..], &["--resume"]].concat());
    assert!(code == 2 && err.contains("--max-tokens was 512 and is 99, prompt differs"), "{err}");
    assert!(err.contains("--restart") && err.contains("--resume=keep"), "{err}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), before);
    folder.write("in/0.txt", "Another text");
    let (code, _, err) = folder.extract("in", &[&brief[..], &["--resume=keep"]].concat());
    assert!(code == 0 && err.contains("1 of 1 records (6 were done)") && err.contains("1 records"), "{err}");
    let run = |line: &Value| line["key"].as_str().unwrap().split_once('-').unwrap().0.to_owned();
    let runs: Vec<String> = folder.lines("out.jsonl").iter().map(run).collect();
    assert!(runs[0] != runs[1] && runs[1..].iter().all(|run| *run == runs[1]), "{runs:?}");
    let known: Vec<Value> = folder.lines("out.jsonl.runs");
    assert_eq!(
        known.iter().map(|known| known["run"].as_str().unwrap()).collect::<Vec<_>>(),
        [&runs[1], &runs[0]]
    );
    let (code, _, err) = folder.extract("in", &[&brief[..], &["--resume"]].concat());
    assert_eq!(code, 2, "they are still mixed: {err}");
    let (code, _, err) = folder.extract("in", &[&brief[..], &["--restart"]].concat());
    assert!(code == 0 && err.contains("7 of 7 records,"), "{err}");
    folder.write("in/0.txt", "Text 0");
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
    let (code, _, err) = folder.extract("in", &["-o", &folder.path("out.json")]);
    assert!(code == 2 && err.contains(".jsonl, .ndjson, .csv, .tsv and .parquet"), "{err}");
    folder.write("mine.csv", "a,b\n");
    for resume in ["--resume", "--restart"] {
        let (code, _, err) = folder.extract("in", &["-o", &folder.path("mine.csv"), resume]);
        assert!(code == 2 && err.contains("mine.csv.journal does not"), "{err}");
    }
    assert_eq!(std::fs::read_to_string(folder.path("mine.csv")).unwrap(), "a,b\n");
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

#[test]
fn stale_records_go_or_are_marked() {
    let folder = Folder::new();
    folder.write("in.csv", "id,body\n1,one\n2,two\n3,three\n");
    let out = folder.path("out.jsonl");
    let more = ["--text-field", "body", "--id-field", "id", "-o", &out];
    assert_eq!(folder.extract("in.csv", &more).0, 0);
    folder.write("in.csv", "id,body\n9,nine\n31,three\n1,one\n");
    let (code, _, err) = folder.extract("in.csv", &[&more[..], &["--resume", "--keep-stale"]].concat());
    assert!(
        code == 0 && err.contains("1 of 1 records (2 were done)") && err.contains("marked as stale"),
        "{err}"
    );
    let of = |line: &Value| {
        let source = line["source"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        (source, line["id"].as_str().unwrap().to_owned(), line["stale"] == true)
    };
    let now: Vec<_> = folder.lines("out.jsonl").iter().map(of).collect();
    let want = [("2", "9", false), ("3", "31", false), ("4", "1", false), ("3", "2", true)];
    assert_eq!(now, want.map(|(source, id, stale)| (source.to_owned(), id.to_owned(), stale)));
    let (code, _, err) = folder.extract("in.csv", &[&more[..], &["--resume"]].concat());
    assert!(
        code == 0 && err.contains("1 records of texts that changed or are no longer there were removed"),
        "{err}"
    );
    assert_eq!(folder.lines("out.jsonl").len(), 3);
}

/// Runs whose inputs, schema and options change between them, and which are cut: the last gives what
/// a run from nothing gives, in all outputs.
#[test]
fn resumed_runs_give_what_runs_from_nothing_give() {
    const ENDINGS: [&str; 3] = ["jsonl", "csv", if cfg!(feature = "parquet") { "parquet" } else { "tsv" }];
    let (mut random, mut refused, mut done) = (Random::new(9), 0, 0);
    for round in 0..oracle_cases(40_usize) {
        let folder = Folder::new();
        let (output, page) = (format!("o.{}", ENDINGS[round % 3]), round % 2 == 0);
        let lines = if round % 3 == 0 { output.clone() } else { format!("{output}.journal") };
        let mut texts: Vec<(String, String)> = Vec::new();
        let (mut variant, model) = (0, folder.path("model"));
        for last in [false, false, true] {
            for _ in 0..1 + random.next() % 4 {
                let at = random.next() as usize % (texts.len() + 1);
                let body = format!(
                    "Text {}",
                    if random.chance(10) { " ".into() } else { (random.next() % 9).to_string() }
                );
                let name = format!("{}", random.next() % 99);
                match random.next() % 4 {
                    0 if at < texts.len() => drop(texts.remove(at)),
                    1 if at < texts.len() => texts[at].0 = name,
                    2 if at < texts.len() => texts[at].1 = body,
                    _ => texts.insert(at, (name, body)),
                }
            }
            // By rows of a table, or by the names of files.
            let is_table = round % 4 < 2;
            let from = if is_table { "in.csv" } else { "in" };
            if is_table {
                let rows: String = texts.iter().map(|(name, body)| format!("{name},{body}\n")).collect();
                folder.write("in.csv", &format!("id,body\n{rows}"));
            } else {
                drop(std::fs::remove_dir_all(folder.path("in")));
                folder.write("in/none.txt", " ");
                texts.iter().for_each(|(name, body)| folder.write(&format!("in/{name}.txt"), body));
            }
            if random.chance(30) {
                variant = random.next() % 4;
            }
            // The same model as a file, which is another one once it has another time.
            if variant == 3 && (!Path::new(&model).exists() || random.chance(20)) {
                std::fs::create_dir_all(&model).unwrap();
                for file in ["config.json", "model-q8_0.gguf", "tokenizer.json", "tokenizer_config.json"] {
                    std::fs::copy(
                        format!("crates/runtime/assets/extract-5m/{file}"),
                        format!("{model}/{file}"),
                    )
                    .unwrap();
                }
            }
            let limit = if variant == 1 { "64" } else { "65" };
            folder.write("s.json", &SCHEMA.replace("ok", if variant == 2 { "fine" } else { "ok" }));
            let run = |output: &str, page: Option<&str>, more: &[&str]| {
                let fields = if is_table { &["--text-field", "body", "--id-field", "id"][..] } else { &[] };
                let html = page.map(|page| ["--html".to_owned(), folder.path(page)]);
                let html: Vec<&str> = html.iter().flatten().map(String::as_str).collect();
                let output = folder.path(output);
                let model = if variant == 3 { &["--model", &model][..] } else { &[] };
                let args = [fields, &html, model, &["-o", &output, "--max-tokens", limit], more].concat();
                folder.extract(from, &args)
            };
            let shown = page.then_some("o.html");
            let (mut code, _, mut err) = run(&output, shown, &["--resume"]);
            if code == 2 {
                let differs = ["schema differs", "--max-tokens was", "model was", "config.json: time was"];
                assert!(differs.iter().any(|how| err.contains(how)), "{err}");
                refused += 1;
                (code, _, err) = run(&output, shown, &["--restart"]);
            }
            assert!(code < 2, "{err}");
            if !last {
                // As if the run had been killed.
                for name in [&*lines, "o.html"] {
                    let Ok(bytes) = std::fs::read(folder.path(name)) else { continue };
                    let least = bytes.len()
                        - bytes
                            .rsplitn(3, |b| *b == b'\n')
                            .take(2)
                            .map(|l| l.len() + 1)
                            .sum::<usize>()
                            .min(bytes.len());
                    if random.chance(30) && !(name == "o.html" && bytes.ends_with(b"data\">\n")) {
                        let cut = least + random.next() as usize % (bytes.len() - least + 1);
                        std::fs::write(folder.path(name), &bytes[..cut]).unwrap();
                    }
                }
                continue;
            }
            done += usize::from(err.contains("were done"));
            let (new_code, _, new_err) = run(&output.replace("o.", "n."), page.then_some("n.html"), &[]);
            assert_eq!(code, new_code, "{err} {new_err}");
            for name in [&*output, &*lines, "o.html"].into_iter().filter(|name| page || *name != "o.html") {
                let read = |name: &str| std::fs::read(folder.path(name)).unwrap();
                let (got, want) = (read(name), read(&name.replacen("o.", "n.", 1)));
                if name == "o.html" {
                    assert_eq!(crate::report::stable(&got), crate::report::stable(&want), "round {round}");
                    continue;
                }
                let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                assert!(got == want, "round {round}, {name}: {} {}", shown(&got), shown(&want));
            }
        }
    }
    eprintln!("{refused} runs were refused, {done} histories ended with records of earlier runs");
    assert!(refused > 0 && done > 0, "{refused} {done}");
}

#[test]
fn tables_are_read_as_people_have_them() {
    let folder = Folder::new();
    let fields = ["--text-field", "body", "--id-field", "id"];
    // The text of each row, and its identifier.
    let read = |name: &str, bytes: &[u8], more: &[&str]| {
        std::fs::write(folder.path(name), bytes).unwrap();
        std::fs::write(folder.path("p.txt"), "<{text}>").unwrap();
        let prompt = folder.path("p.txt");
        let (code, out, err) = folder.extract(name, &[&fields[..], more].concat());
        let ids: Vec<String> =
            lines(&out).iter().map(|line| line["id"].as_str().unwrap_or("-").to_owned()).collect();
        let (_, prompts, _) =
            folder.extract(name, &[&fields[..], more, &["--prompt", &prompt, "--show-prompt"]].concat());
        (code, ids.join(" "), prompts.lines().collect::<Vec<_>>().join(" "), err)
    };
    let utf16 = |text: &str| {
        [b"\xff\xfe".to_vec(), text.encode_utf16().flat_map(u16::to_le_bytes).collect()].concat()
    };
    for (name, bytes) in [
        ("a.csv", b"id;body\n1;caf\xc3\xa9, 5\n2;b\n".to_vec()),
        ("b.csv", "id\tbody\n1\tcafé, 5\n2\tb\n".into()),
        ("c.tsv", "body|id\ncafé, 5|1\nb|2\n".into()),
        ("d.csv", utf16("id;body\r\n1;café, 5\r\n2;b\r\n")),
        ("e.csv", b"id;body\n1;caf\xe9, 5\n2;b\n".to_vec()),
        ("f.jsonl", utf16("{\"id\":\"1\",\"body\":\"café, 5\"}\r\n{\"id\":\"2\",\"body\":\"b\"}")),
    ] {
        let (code, ids, prompts, err) = read(name, &bytes, &[]);
        assert_eq!((code, &*ids), (0, "1 2"), "{name} {err}");
        assert!(prompts.contains("<café, 5>") && prompts.contains("<b>"), "{name} {prompts}");
        assert_eq!(err.contains("read as windows-1252"), name == "e.csv", "{err}");
    }
    let (code, _, prompts, err) =
        read("g.jsonl", b"{\"id\":\"1\",\"body\":\"\x8014\"}", &["--encoding", "windows-1252"]);
    assert!(code == 0 && prompts.contains("<€14>"), "{err}");
    let wrong: [(&str, &[u8], &str, &str); 5] = [
        ("h.csv", b"id,body,body\n1,a,b\n", "columns 2 and 3 of line 1 are both named `body`", "1"),
        ("i.csv", b"id,body\n1,a\n2,\"b\n3,c\n", "the quote that opens in line 3 is never closed", "1 2"),
        (
            "j.csv",
            b"id,body\n1,\"a\n2,b \"x\" c\n3,d\n",
            "the quote that opens in line 2 closes within a field, in line 3",
            "1 3",
        ),
        ("k.csv", b"id,body\n1,a,b\n2,c\n", "line 2 has 3 fields, the header has 2", "1 2"),
        ("l.csv", b"id,body\n1\n2,c\n", "line 2 has 1 fields, the header has 2", "1 2"),
    ];
    for (name, bytes, message, taken) in wrong {
        let (code, _, _, err) = read(name, bytes, &[]);
        assert!(code != 0 && err.contains(message) && err.contains("--lenient"), "{code} {err}");
        let (_, ids, _, err) = read(name, bytes, &["--lenient"]);
        assert!(err.contains("1 faults of rows and columns"), "{name} {err}");
        assert_eq!(ids, taken.replace("- ", ""), "{name} {err}");
    }
}

#[cfg(unix)]
#[test]
fn a_loop_of_links_is_the_failure_of_the_link() {
    let folder = Folder::new();
    folder.write("in/a/b.txt", "A text");
    std::os::unix::fs::symlink(folder.path("in"), folder.path("in/a/again")).unwrap();
    folder.write("in/z.txt", "Another");
    let (code, out, err) = folder.extract("in", &["--include", "*.txt"]);
    let got: Vec<(bool, bool)> =
        lines(&out).iter().map(|line| (line["record"].is_object(), line["error"].is_null())).collect();
    assert_eq!((code, got), (1, vec![(false, false), (true, true), (true, true)]), "{err}");
    assert!(err.contains("a link to a folder around it") && err.contains("again"), "{err}");
}
