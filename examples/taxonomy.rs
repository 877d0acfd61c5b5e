//! Labels of a taxonomy: one label, several different ones, a hierarchy, and label probabilities.
//!
//! cargo run --release --example taxonomy
//!
//! The constraint makes every answer a label, but not the right one: the embedded model is trained
//! to fill in records, not to find the topic of a text.

use ffwd::constraint::token_machine::{Labels, Levels};
use ffwd::decode::LabelOptions;
use ffwd::{Constraint, Engine, Prompt, Request, Result};

const TEXT: &str = "Dear customer, your order 4711 has left our warehouse. The invoice over 129.00 EUR is \
    attached; please pay within 30 days.";
const TREE: &str = r#"{
    "Business": {"Invoice": null, "Order": {"Delivery": null, "Return": null}, "Complaint": null},
    "Technology": {"AI": ["NLP", "Vision"], "Hardware": null},
    "Sport": null
}"#;

fn main() -> Result<()> {
    let engine = Engine::embedded()?;
    let prompt = || Prompt::text(format!("{TEXT}\n\nTopic:"));

    println!("one label");
    let labels = Labels::new(["Invoice", "Invoice reminder", "Order", "Complaint", "Sport"]);
    let output = engine.generate(&Request::new(prompt()).constraint(Constraint::labels(&labels)))?;
    println!("  {:?} in {} forwards", output.text, output.stats.forwards);

    println!("two or three labels, none twice");
    let several = labels.clone().several(", ").at_least(2).at_most(3);
    for seed in 0..3 {
        let request = Request::new(prompt()).constraint(Constraint::labels(&several));
        let output = engine.generate(&request.temperature(1.0).seed(seed))?;
        let found = engine.label_trie(&several)?.parse(&output.tokens).unwrap_or_default();
        println!("  {:?}, which are labels {found:?}", output.text);
    }

    println!("a hierarchy, inner places included");
    let tree = Labels::from_tree(TREE, " > ")?.paths(" > ", Levels::All);
    let trie = engine.label_trie(&tree)?;
    println!("  {} labels, {} nodes; in tokens:", trie.len(), trie.node_count());
    for label in [0, trie.len() - 1] {
        let tokens = trie.tokens(label);
        let texts = tokens.iter().map(|&t| String::from_utf8_lossy(engine.vocabulary().token_bytes(t)));
        println!("  {:?}", texts.collect::<Vec<_>>());
    }

    println!("how probable each place is");
    let found = engine.label_probabilities(&prompt(), &trie, &LabelOptions::default())?;
    for label in &found.labels {
        println!("  {:8.4} %  {}", 100.0 * label.probability, label.label);
    }
    let sum: f64 = found.labels.iter().map(|l| l.probability).sum();
    assert!((sum - 1.0).abs() < 1e-9);
    println!("  {:8.4} %  Business and all below it", 100.0 * found.below("Business"));
    println!(
        "  {} forwards; {:.3} % of the model's probability was on labels",
        found.forwards,
        100.0 * found.legal_mass
    );

    println!("the three most probable, without looking at all others");
    let options = LabelOptions { top: Some(3), ..LabelOptions::default() };
    let found = engine.label_probabilities(&prompt(), &trie, &options)?;
    for label in &found.labels {
        println!("  {:8.4} %  {}", 100.0 * label.probability, label.label);
    }
    println!("  {:8.4} %  all others, in {} forwards", 100.0 * found.rest, found.forwards);
    Ok(())
}
