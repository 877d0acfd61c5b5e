//! Runs over many texts that are cut: by a kill, an interrupt, a full disk. A resumed run gives what a
//! run from nothing gives.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ffwd_testkit::env::oracle_cases;
use ffwd_testkit::random::Random;
use serde_json::Value;

use crate::program::{Folder, SCHEMA};

fn sources(lines: &[Value], below: &Path) -> Vec<String> {
    let source = |line: &Value| {
        let source = Path::new(line["source"].as_str().unwrap());
        source.strip_prefix(below).unwrap_or(source).to_str().unwrap().to_owned()
    };
    lines.iter().map(source).collect()
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
        assert!(code == Some(1) && err.matches("error: ").count() == 1, "{name}: {code:?} {err}");
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
