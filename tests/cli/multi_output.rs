//! `ffwd generate --best-of` and `--beams`.

use serde_json::Value;

use crate::program::{Folder, ffwd, succeeds, texts};

const NAME: [&str; 4] = ["generate", "Ada: ", "--regex", "[A-Z][a-z]{2,6}"];

/// Lines of the output, and the statistics.
fn listed(args: &[&str]) -> (Vec<String>, Value) {
    let folder = Folder::new();
    let (out, _) = succeeds(&[&NAME[..], args, &["--stats", &folder.path("stats.json")]].concat());
    let figures = serde_json::from_str(&folder.read("stats.json")).unwrap();
    (out.lines().map(str::to_owned).collect(), figures)
}

#[test]
fn samples_come_best_first_and_their_seeds_give_them_again() {
    let (lines, figures) = listed(&["--best-of", "3", "--temperature", "0.9", "--seed", "5"]);
    let outputs = figures["outputs"].as_array().unwrap();
    assert_eq!((lines.len(), outputs.len()), (3, 3));
    let mut seeds: Vec<u64> = outputs.iter().map(|o| o["seed"].as_u64().unwrap()).collect();
    for (line, output) in lines.iter().zip(outputs) {
        assert_eq!(output["text"], **line);
        assert_eq!(output["score"], output["log_probability"]);
        assert!(output["complete"] == true && !output["stats"]["tokens"].is_null());
        let seed = output["seed"].to_string();
        let alone = ffwd(&[&NAME[..], &["--temperature", "0.9", "--seed", &seed]].concat());
        assert_eq!(texts(&alone).0.trim_end(), line);
    }
    let scores: Vec<f64> = outputs.iter().map(|o| o["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    seeds.sort_unstable();
    assert_eq!(seeds, [5, 6, 7]);
}

#[test]
fn beams_come_best_first() {
    let (lines, figures) = listed(&["--beams", "4", "--length-penalty", "1"]);
    let outputs = figures["outputs"].as_array().unwrap();
    assert_eq!((lines.len(), outputs.len()), (4, 4));
    assert!(figures["forwards"].as_u64().unwrap() < 10 && figures["draft_forwards"] == 0);
    for (line, output) in lines.iter().zip(outputs) {
        assert_eq!(output["text"], **line);
        assert_eq!(output["score"], output["mean_log_probability"]);
        assert!(output["seed"].is_null() && output["finish"]["reason"] == "stop");
    }
    let (greedy, _) = texts(&ffwd(&NAME));
    assert_eq!(texts(&ffwd(&[&NAME[..], &["--beams", "1"]].concat())).0, greedy);
}
