//! Streaming, stop texts and completion within the limit on the command line.

use serde_json::Value;

use crate::program;

const TEXT: &str = "examples/data/invoice.txt";
const SCHEMA: &str = "examples/data/invoice.schema.json";

fn ffwd(args: &[&str]) -> (i32, String, String) {
    let output = program::ffwd(args);
    let (out, err) = program::texts(&output);
    (output.status.code().unwrap(), out, err)
}

#[test]
fn streamed_values_make_up_the_record() {
    let (code, out, err) = ffwd(&["extract", TEXT, "--schema", SCHEMA, "--stream"]);
    assert_eq!(code, 0, "{err}");
    let mut lines: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let record = lines.pop().unwrap();
    let done: Vec<&Value> = lines.iter().filter(|l| l["state"] == "done").collect();
    assert!(done.len() > 3);
    for line in done {
        assert_eq!(record.pointer(line["pointer"].as_str().unwrap()), Some(&line["value"]));
    }
    let (code, _, err) = ffwd(&["extract", TEXT, TEXT, "--schema", SCHEMA, "--stream"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn streamed_text_is_the_text() {
    let command = ["generate", "The date is ", "--regex", "[0-9]{4}-[0-9]{2}-[0-9]{2}"];
    let (_, plain, _) = ffwd(&command);
    let (code, streamed, err) = ffwd(&[&command[..], &["--stream"]].concat());
    assert_eq!((code, streamed), (0, plain), "{err}");
}

#[test]
fn what_was_thought_is_not_printed() {
    let choice =
        ["generate", "Yes or no? ", "--choice", "yes", "--choice", "no", "--think-until", "</think>"];
    let (code, out, err) = ffwd(&[&choice[..], &["--think-budget", "8"]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(["yes\n", "no\n"].contains(&out.as_str()), "{out:?}");
    let (code, out, err) = ffwd(&[&choice[..], &["--think-budget", "8", "--stream"]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(out.ends_with("</think>yes\n") || out.ends_with("</think>no\n"), "{out:?}");
    // Stop texts belong to the answer.
    for stop in ["e", "t", "</think>"] {
        let (code, out, err) = ffwd(&[&choice[..], &["--think-budget", "8", "--stop", stop]].concat());
        let answers = if stop == "e" { ["y\n", "no\n"] } else { ["yes\n", "no\n"] };
        assert!(answers.contains(&out.as_str()), "{stop}: {out:?}");
        assert_eq!(code, i32::from(out == "y\n"), "{stop}: {err}");
    }
    // Nothing of the thoughts is printed as an answer.
    let (code, out, err) = ffwd(&[&choice[..], &["--max-tokens", "3"]].concat());
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("before the text of --think-until"), "{err}");
    let (code, _, err) = ffwd(&["generate", "x", "--think-until", "</think>"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn stop_texts_closing_and_bias() {
    let choice = ["generate", "Say: ", "--choice", "one two three"];
    let (code, out, err) = ffwd(&[&choice[..], &["--stop", " t"]].concat());
    // The text was cut: it is printed, and is no success.
    assert_eq!((code, out.as_str()), (1, "one\n"), "{err}");
    assert!(err.contains("the stop text \" t\" ends the output"), "{err}");
    let (code, out, err) = ffwd(&[&choice[..], &["--choice", "one", "--stop", " t"]].concat());
    assert_eq!((code, out.as_str()), (0, "one\n"), "{err}");
    let (code, out, err) = ffwd(&[&choice[..], &["--max-tokens", "1"]].concat());
    assert!(code == 1 && "one two three".starts_with(out.trim_end_matches('\n')) && out.len() > 1, "{out:?}");
    assert!(err.contains("not complete: after 1 tokens"), "{err}");
    let (code, streamed, _) = ffwd(&[&choice[..], &["--max-tokens", "1", "--stream"]].concat());
    assert_eq!((code, streamed), (1, out));
    let (code, out, err) =
        ffwd(&["extract", TEXT, "--schema", SCHEMA, "--max-tokens", "100", "--close-before-limit"]);
    assert_eq!(code, 0, "{err}");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(SCHEMA).unwrap()).unwrap();
    assert!(jsonschema::is_valid(&schema, &serde_json::from_str(&out).unwrap()), "{out}");
    for (args, part) in [
        (["--stop", ""], "--stop"),
        (["--logit-bias", "x"], "15=-2.5"),
        (["--repetition-penalty", "0"], "repetition_penalty"),
    ] {
        let (code, _, err) = ffwd(&[&choice[..], &args[..]].concat());
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(part), "{err}");
    }
}
