//! The command `bench`: complete reports, equal texts, comparisons, and faults of its files.

use serde_json::{Value, json};

use crate::program::{Folder, ffwd, succeeds, texts};

const SCENARIOS: &str = r#"
[[scenario]]
name = "record"
text = "Total: 12.50 EUR, paid"
schema = '{"properties": {"total": {"type": "number"}, "paid": {"type": "boolean"}}, "required": ["total", "paid"]}'

[[scenario]]
name = "free"
prompt = "Once upon a time"
max-tokens = 6
"#;

fn json(folder: &Folder, name: &str) -> Value {
    serde_json::from_str(&folder.read(name)).unwrap()
}

/// Runs the program, which must succeed, and returns its standard output.
fn bench(args: &[&str]) -> String {
    succeeds(&[&["bench"], args].concat()).0
}

/// A page must not load anything.
fn assert_alone(page: &str) {
    assert!(page.starts_with("<!doctype html>"));
    for part in ["src=", "<link", "@import", "url(", "http://", "https://"] {
        let all = page.matches(part).count();
        let namespaces = page.matches("http://www.w3.org/").count();
        assert_eq!(all, if part == "http://" { namespaces } else { 0 }, "{part}");
    }
}

#[test]
fn a_decode_report_is_complete_and_exact_arms_have_the_text_of_off() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    folder.write("s.toml", SCENARIOS);
    let rounds = ["--rounds", "1", "--warmup", "1"];
    let (toml, results) = (path("s.toml"), path("a.json"));
    let (page, tables) = (path("a.html"), path("a.md"));
    let files = ["--json", &results, "--html", &page, "--markdown", &tables];
    let out = bench(&[&["decode", "--scenarios", &toml], &rounds[..], &files[..]].concat());
    let report = json(&folder, "a.json");
    for key in ["version", "date", "processor", "cores", "threads", "model", "precision", "weight_bytes"] {
        assert!(!report["about"][key].is_null(), "{key}");
    }
    let arms = |i: usize| report["scenarios"][i]["arms"].as_array().unwrap().clone();
    let names = |i: usize| arms(i).iter().map(|a| a["arm"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let all = ["off", "exact", "forced", "copied", "draft-model", "canonical", "longest", "unconstrained"];
    assert_eq!(names(0), all);
    assert_eq!(names(1), ["off", "exact", "copied"]);
    for arm in arms(0).iter().chain(&arms(1)) {
        let name = arm["arm"].as_str().unwrap();
        assert!(
            arm["seconds"]["median"].as_f64().unwrap() > 0.0 && arm["forwards"].as_u64() > Some(0),
            "{arm}"
        );
        assert!(arm["first_token_seconds"]["median"].as_f64().unwrap() > 0.0, "{arm}");
        if !["canonical", "longest", "unconstrained"].contains(&name) {
            assert_eq!(arm["same_text"], json!(true), "{arm}");
        }
        // A source alone proposes nothing else.
        let drafted = |source: &str| arm["drafted"][source].as_u64().unwrap();
        let others: &[&str] = match name {
            "off" => &["forced", "lookup", "draft_model"],
            "forced" => &["lookup", "draft_model"],
            "copied" => &["forced", "draft_model"],
            "draft-model" => &["forced", "lookup"],
            _ => &[],
        };
        others.iter().for_each(|source| assert_eq!(drafted(source), 0, "{source}: {arm}"));
    }
    let forced = arms(0).into_iter().find(|arm| arm["arm"] == "forced").unwrap();
    assert!(forced["accepted"]["forced"].as_u64() > Some(0), "{forced}");
    for text in [&out, &folder.read("a.md")] {
        assert!(
            text.contains("record") && text.contains("unconstrained") && text.contains("machine"),
            "{text}"
        );
    }
    let page = folder.read("a.html");
    assert_alone(&page);
    assert!(page.matches("data-figure=\"").count() == 3 && page.contains("<td>forced</td>"));
    let figures = page.split("id=\"figures\">").nth(1).unwrap().split("</script>").next().unwrap();
    let figures: Value = serde_json::from_str(figures).unwrap();
    // A mark for each scenario that has the arm.
    let marks = |name: &str| {
        let series = figures[0]["series"].as_array().unwrap();
        series.iter().find(|one| one["name"] == name).map(|one| one["points"].as_array().unwrap().len())
    };
    assert_eq!((marks("exact"), marks("forced"), marks("off")), (Some(2), Some(1), None));

    // A made-up run that took hardly any time.
    let mut faster = report.clone();
    for key in ["median", "low", "high"] {
        let time = &mut faster["scenarios"][0]["arms"][1]["seconds"][key];
        *time = json!(time.as_f64().unwrap() / 10_000.0);
    }
    folder.write("old.json", &faster.to_string());
    let old = path("old.json");
    let only = ["--only", "record", "--arms", "exact", "--compare", &old];
    let out = bench(&[&["decode", "--scenarios", &toml], &rounds[..], &only].concat());
    let line = out.lines().find(|line| line.starts_with("record") && line.contains("exact")).unwrap();
    assert!(line.ends_with("slower"), "{line}");
    assert!(out.contains(" slower, ") && out.contains(" within the noise"), "{out}");

    let only = ["--only", "record", "--arms", "exact", "--threads", "1,2"];
    let out = bench(&[&["decode", "--scenarios", &toml], &rounds[..], &only].concat());
    let rows: Vec<&str> = out.lines().filter(|line| line.ends_with("yes")).collect();
    let names = ["off, 1 thread ", "off, 2 threads ", "exact, 1 thread ", "exact, 2 threads "];
    assert!(rows.len() == 4 && rows.iter().zip(names).all(|(row, name)| row.starts_with(name)), "{out}");

    let texts = "[[scenario]]\nname = \"two\"\ntexts = [\"Total: 1 EUR\", \"Total: 27 EUR\"]\nmax-tokens = 9\n\
                 schema = '{\"properties\": {\"total\": {\"type\": \"number\"}}, \"required\": [\"total\"]}'\n";
    folder.write("s.toml", texts);
    let options = ["--arms", "ungated,random-drafts", "--batch", "2", "--keep-prompts", "--json", &results];
    let out = bench(&[&["decode", "--scenarios", &toml], &rounds[..], &options].concat());
    assert!(out.contains("in batches of 2") && out.contains("random-drafts"), "{out}");
    let report = json(&folder, "a.json");
    let arms = report["scenarios"][0]["arms"].as_array().unwrap();
    // The round after the warm-up has the second text.
    assert!(arms.len() == 3 && arms.iter().all(|arm| arm["text"] == r#"{"total":27}"#), "{report}");
    assert!(report["batches"]["rows"][1]["batch"].as_f64() > Some(0.0), "{report}");
}

#[test]
fn a_fraction_report_has_the_fractions_that_were_wanted() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let (results, page) = (path("f.json"), path("f.html"));
    let schema = ["--schema", "examples/data/invoice.schema.json", "--text", "examples/data/invoice.txt"];
    let run = ["fraction", "--fractions", "0,0.5,0.9", "--tokens", "40", "--rounds", "1", "--warmup", "1"];
    let files = ["--json", &results, "--html", &page];
    let out = bench(&[&run[..], &schema, &files].concat());
    assert!(out.contains("0.500") && out.contains("own schema"), "{out}");
    let report = json(&folder, "f.json");
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    for point in points {
        assert_eq!(point["fraction"], point["wanted"]);
        for arm in point["arms"].as_array().unwrap() {
            assert_eq!((&arm["tokens"], &arm["same_text"]), (&json!(40), &json!(true)), "{arm}");
        }
        let ceiling = |name: &str| point["ceilings"][name].as_f64().unwrap();
        assert!(ceiling("measured_rows") <= ceiling("free_rows") + 1e-9, "{point}");
    }
    // Forced runs alone need no more forwards than free tokens, and the first one.
    let forwards = points[1]["arms"][2]["forwards"].as_u64().unwrap();
    assert!((20..40).contains(&forwards), "{forwards}");
    let own = report["schema"]["fraction"].as_f64().unwrap();
    assert!(own > 0.1 && own < 0.9, "{own}");
    let page = folder.read("f.html");
    assert_alone(&page);
    for part in ["id=\"fraction\"", "id=\"run\"", "id=\"row\"", "\"shape\":\"triangle\"", "Triangles"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn masks_are_measured_and_wrong_judgements_counted() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let tests =
        r#"[{"data": 12, "valid": true}, {"data": "a", "valid": false}, {"data": 7.5, "valid": true}]"#;
    folder.write("a.json", &format!(r#"{{"schema": {{"type": "integer"}}, "tests": {tests}}}"#));
    folder.write("b.jsonl", "{\"schema\": false, \"tests\": []}\n{\"schema\": {}}\n");
    let (a, b, results, page) = (path("a.json"), path("b.jsonl"), path("m.json"), path("m.html"));
    let out = bench(&["masks", &a, &b, "--json", &results, "--html", &page]);
    assert!(out.contains("first mask") && out.contains("p99"), "{out}");
    let report = json(&folder, "m.json");
    let engine = &report["engines"][0];
    let counts = ["schemas", "passing", "refused", "instances", "wrongly_refused", "wrongly_accepted"];
    let counts: Vec<u64> = counts.iter().map(|key| engine[key].as_u64().unwrap()).collect();
    // One instance is valid as the file says, and the engine refuses it.
    assert_eq!(counts, [3, 1, 1, 3, 1, 0]);
    let mask = &engine["mask"];
    // The first mask is not among them.
    assert!(mask["count"].as_u64() > Some(2) && mask["p50"].as_f64() <= mask["p99"].as_f64(), "{mask}");
    assert_alone(&folder.read("m.html"));
    folder.write("b.jsonl", r#"{"schema": {"const": 1}, "tests": [{"data": 1, "valid": true}]}"#);
    let options = ["--engine", "ffwd", "--engine", "borrowed", "--apart", "--slowest", "1", "--failures"];
    let out = bench(&[&["masks", &b], &options[..]].concat());
    assert!(out.contains("ffwd, borrowed / ffwd") && out.contains("slowest masks"), "{out}");
}

#[test]
fn grammars_are_measured_and_texts_outside_of_the_language_reported() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    folder.write("sum.lark", "start: sum\nsum: N | sum \"+\" N\nN: /[0-9]+/\n%ignore \" \"\n");
    folder.write("ab.gbnf", "root ::= (\"a\" | \"b\")+\n");
    let lines = "{\"id\": \"sum\", \"grammar\": \"sum.lark\", \"texts\": [\"1 + 23 + 4\", \"7+8\"]}\n\
                 {\"id\": \"ab\", \"grammar\": \"ab.gbnf\", \"texts\": [\"abba\"]}\n";
    folder.write("c.jsonl", lines);
    let (corpus, results, page) = (path("c.jsonl"), path("g.json"), path("g.html"));
    let rounds = ["--rounds", "2", "--warmup", "0", "--json", &results, "--html", &page];
    let out = bench(&[&["masks", &corpus], &rounds[..]].concat());
    assert!(out.contains("new text") && out.contains("warm p50"), "{out}");
    let report = json(&folder, "g.json");
    let [sum, ab] = [0, 1].map(|at| &report["results"][at]);
    assert_eq!((&sum["grammar"], &ab["grammar"]), (&json!("sum"), &json!("ab")));
    assert!(
        sum["cold_ms"]["median"].as_f64() > Some(0.0) && sum["kb"]["median"].as_f64() > Some(0.0),
        "{sum}"
    );
    assert!(sum["new_text_ms"].is_object() && ab["new_text_ms"].is_null(), "{ab}");
    assert!(sum["again_ms"]["median"].as_f64() > Some(0.0), "{sum}");
    assert_alone(&folder.read("g.html"));

    folder.write("c.jsonl", &lines.replace("abba", "abc"));
    let output = ffwd(&["bench", "masks", &corpus, "--quick", "--only", "ab"]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("error: ffwd: ab: ") && err.contains("not in the mask"), "{err}");
    assert!(out.contains("ab") && !out.contains("sum "), "{out}");
}

#[test]
fn small_measurements_have_their_tables() {
    let out = bench(&["threads", "--rounds", "1"]);
    assert!(out.contains("one grammar, warm") && out.contains("a grammar each, cold"), "{out}");
    let out = bench(&["start", "--rounds", "1"]);
    assert!(out.lines().any(|line| line.starts_with("embedded ")) && out.contains("first forward"), "{out}");
    let model = "crates/runtime/assets/extract-5m/model-q8_0.gguf";
    let out = bench(&["formats", model, "--rounds", "1", "--tokens", "1,3"]);
    assert!(out.lines().any(|line| line.starts_with("model-q8_0 ")) && out.contains("3 rows, ms"), "{out}");
    let out = bench(&["hostile"]);
    assert!(out.contains("refused: TooComplex") && out.contains("a mask"), "{out}");
}

/// A process that answers as an engine: any text is of the language, and its last token is refused.
const PROCESS: &str = r#"
read greeting; echo '{"name": "fake"}'
while read question; do
  case $question in
    *kind*) echo '{"ns": 5000}' ;;
    *) echo '{"start": 100, "masks": [1000, 3000], "accepts": [200], "fault": "refused", "bytes": 4000}' ;;
  esac
done
"#;

#[cfg(unix)]
#[test]
fn an_engine_in_a_process_reports_its_own_times() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    folder.write("engine.sh", PROCESS);
    folder.write("a.json", r#"{"schema": {}, "tests": [{"data": 12, "valid": true}]}"#);
    let (schemas, results, process) = (path("a.json"), path("m.json"), format!("sh {}", path("engine.sh")));
    let tokenizer = "crates/runtime/assets/extract-5m/tokenizer.json";
    let options = ["--tokenizer", tokenizer, "--process", &process, "--json", &results];
    bench(&[&["masks", &schemas, "--engine", "ffwd"], &options[..]].concat());
    let engine = &json(&folder, "m.json")["engines"][1];
    assert_eq!((&engine["engine"], &engine["wrongly_refused"]), (&json!("fake"), &json!(1)));
    let first_mask = engine["first_mask"]["p50"].as_f64().unwrap();
    assert!((first_mask - 6.1).abs() < 1e-9, "{engine}");
    assert_eq!((&engine["mask"]["p50"], &engine["bytes"]["median"]), (&json!(3.0), &json!(4000.0)));
}
