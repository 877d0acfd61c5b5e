//! `ffwd classify`: probabilities of labels, and the warning where the model wants none of them.

use serde_json::Value;

use crate::program::{Folder, ffwd_reading, lines, texts};

#[test]
fn classify_gives_probabilities_that_add_up() {
    let folder = Folder::new();
    let tree = r#"{"Business": {"Invoice": null, "Order": ["Delivery", "Return"]}, "Sport": null}"#;
    folder.write("tree.json", tree);
    let tree = &folder.path("tree.json");
    let text = "Please pay the invoice over 200 EUR.";
    let args = ["classify", "-", "examples/data/invoice.txt", "--labels", tree, "--labels-levels", "all"];
    let output = ffwd_reading(&args, text);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    let lines = lines(&out);
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

    let output =
        ffwd_reading(&["classify", "-", "--labels", tree, "--top", "2", "--prompt", "{text} It is"], text);
    let line: Value = serde_json::from_str(&texts(&output).0).unwrap();
    let labels = line["labels"].as_array().unwrap();
    let sum: f64 = labels.iter().map(|l| l["probability"].as_f64().unwrap()).sum();
    assert!(labels.len() == 2 && (sum + line["rest"].as_f64().unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn classify_names_the_labels() {
    let folder = Folder::new();
    folder.write("labels.txt", "invoice\nletter\nrecipe\n");
    let labels = folder.path("labels.txt");
    let run = |more: &[&str]| {
        let output = ffwd_reading(&[&["classify", "-", "--labels", &labels], more].concat(), "Pay 200 EUR.");
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{err}");
        (serde_json::from_str::<Value>(&out).unwrap(), err)
    };
    // The same limit for every prompt.
    for prompt in [&[][..], &["--prompt", "{text}\\n\\nZ"]] {
        let (found, err) = run(prompt);
        let low = found["legal_mass"].as_f64().unwrap() < 0.5;
        assert_eq!(err.contains("warning: most of the model's probability"), low, "{found} {err}");
    }
    let (_, err) = run(&["--prompt", "Labels: {labels}\\n{text}\\n{{}}"]);
    assert!(err.contains("3 of 3 labels"), "{err}");
}
