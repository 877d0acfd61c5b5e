//! Labels on the command line: `generate --labels`, `classify`, `inspect --labels`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{ffwd_reading as ffwd, texts};

fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

const TREE: &str = r#"{"Business": {"Invoice": null, "Order": ["Delivery", "Return"]}, "Sport": null}"#;

#[test]
fn generate_writes_labels() {
    let dir = tempfile::tempdir().unwrap();
    let labels = file(dir.path(), "labels.txt", "invoice\ninvoice reminder\n\n  letter  \n");
    let labels = labels.to_str().unwrap();
    let (out, err) = texts(&ffwd(&["generate", "Kind:", "--labels", labels], ""));
    assert!(["invoice\n", "invoice reminder\n", "letter\n"].contains(&out.as_str()), "{out:?} {err}");
    let several =
        ["--labels-separator", " + ", "--min-labels", "2", "--max-labels", "2", "--temperature", "1"];
    let args = [&["generate", "Kind:", "--labels", labels][..], &several].concat();
    let (out, err) = texts(&ffwd(&args, ""));
    let parts: Vec<&str> = out.trim_end_matches('\n').split(" + ").collect();
    assert!(parts.len() == 2 && parts[0] != parts[1], "{out:?} {err}");

    let bad = file(dir.path(), "bad.txt", "invoice\nletter\ninvoice\n");
    let output = ffwd(&["generate", "Kind:", "--labels", bad.to_str().unwrap()], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("\"invoice\" stands there twice, as 1 and 3"));
    for useless in [&["--labels-separator", ","][..], &["--labels-levels", "leaves"]] {
        let output = ffwd(&[&["generate", "x", "--regex", "a"][..], useless].concat(), "");
        assert_eq!(output.status.code(), Some(2), "{}", texts(&output).1);
    }
    let output = ffwd(&["generate", "x", "--labels", labels, "--max-labels", "2"], "");
    assert_eq!(output.status.code(), Some(2), "it needs a separator");
}

#[test]
fn classify_gives_probabilities_that_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let tree = file(dir.path(), "tree.json", TREE);
    let tree = tree.to_str().unwrap();
    let text = "Please pay the invoice over 200 EUR.";
    let args = ["classify", "-", "examples/data/invoice.txt", "--labels", tree, "--labels-levels", "all"];
    let output = ffwd(&args, text);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    let lines: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["source"], "-");
    for line in &lines {
        let labels = line["labels"].as_array().unwrap();
        assert_eq!(labels.len(), 6, "inner places are labels");
        let sum: f64 = labels.iter().map(|l| l["probability"].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9 && line["rest"] == 0.0);
        assert!(labels.iter().any(|l| l["label"] == "Business > Order"));
    }
    assert!(err.contains("6 of 6 labels"), "{err}");

    let output = ffwd(&["classify", "-", "--labels", tree, "--top", "2", "--prompt", "{text} It is"], text);
    let line: Value = serde_json::from_str(&texts(&output).0).unwrap();
    let labels = line["labels"].as_array().unwrap();
    let sum: f64 = labels.iter().map(|l| l["probability"].as_f64().unwrap()).sum();
    assert!(labels.len() == 2 && (sum + line["rest"].as_f64().unwrap() - 1.0).abs() < 1e-9);

    let output = ffwd(&["classify", "-", "--labels", tree, "--prompt", "no place"], text);
    assert_eq!(output.status.code(), Some(2));
    assert!(texts(&output).1.contains("{text}"));
}

#[test]
fn inspect_shows_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let tree = file(dir.path(), "tree.json", TREE);
    let base = ["inspect", "--labels", tree.to_str().unwrap(), "--labels-separator", "; "];
    let (out, err) = texts(&ffwd(&[&base[..], &["--prefix", " Sport", "--why", "; Sport"]].concat(), ""));
    assert!(
        out.contains("behind the label in \" Sport\"") && out.contains("may end here   yes"),
        "{out} {err}"
    );
    assert!(out.contains("no transition continues it after"), "{out}");
    let (out, _) = texts(&ffwd(&[&base[..], &["--prefix", " Business", "--json"]].concat(), ""));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["forced_text"], " >");
    assert!(report["state"].as_str().unwrap().contains("3 labels"), "{report}");
    assert_eq!(report["accepting"], false);
}
