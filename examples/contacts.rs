//! Contacts from mail threads: the people of each thread, merged over all threads, with the place in
//! the text that each value was copied from.
//!
//! ```text
//! cargo run --release --example contacts [-- FOLDER] [--model FILE] [--output FILE]
//! ```
//!
//! A model reasons first, in free text, and writes the record after it. The embedded models are too
//! small to reason and write the record at once. Names, addresses and numbers are spans of the text
//! (`x-verbatim`), so no value can be invented, only misplaced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Parser;
use ffwd::Engine;
use ffwd::constraint::substring::SubstringOptions;
use ffwd::extract::{Extractor, TextSpan, finished};
use serde::Serialize;

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {"people": {"type": "array", "minItems": 1, "maxItems": 5, "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "x-verbatim": true, "pattern": "^\\p{Lu}\\p{L}+( \\p{Lu}\\p{L}+)+$", "maxLength": 40},
            "email": {"anyOf": [{"type": "string", "x-verbatim": true, "pattern": "^[a-z.]+@[a-z.]+$"}, {"type": "null"}]},
            "phone": {"anyOf": [{"type": "string", "x-verbatim": true, "pattern": "^\\+[0-9]+( [0-9]+)+$"}, {"type": "null"}]}
        },
        "required": ["name", "email", "phone"]
    }}},
    "required": ["people"]
}"#;
const INSTRUCTIONS: &str =
    "First write one sentence about who takes part, then an empty line, then the JSON.";
/// The end of the reasoning, an empty line, and the most tokens before it.
const REASONING: (&str, usize) = ("\n\n", 48);

/// Collect the people of mail threads
#[derive(Parser)]
struct Args {
    /// Read the .txt files of this folder
    #[arg(default_value = "examples/data/threads")]
    folder: PathBuf,
    /// Load this model instead of the embedded ones
    #[arg(short, long)]
    model: Option<PathBuf>,
    /// Write the contacts to this file, as JSON Lines
    #[arg(long, default_value = "target/contacts.jsonl")]
    output: PathBuf,
}

/// A value and the places that it was copied from.
#[derive(Debug, Default, Serialize)]
struct Evidence {
    value: String,
    found: Vec<Place>,
}

/// A place in a file. Several if the file has the value more than once.
#[derive(Debug, Serialize)]
struct Place {
    file: String,
    spans: Vec<TextSpan>,
}

/// A person, by name. Different values from several threads are kept apart.
#[derive(Debug, Default, Serialize)]
struct Contact {
    name: Evidence,
    emails: BTreeMap<String, Evidence>,
    phones: BTreeMap<String, Evidence>,
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let engine = match &args.model {
        Some(model) => Engine::builder().model(model).build()?,
        None => Engine::embedded()?,
    };
    let reasons = args.model.is_some();
    let instructions = if reasons { INSTRUCTIONS } else { "" };
    let extractor = Extractor::builder(&engine)
        .spans(SubstringOptions::words())
        .instructions(instructions)
        .build(SCHEMA)?;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&args.folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|e| e == "txt"));
    files.sort();
    let mut contacts = BTreeMap::new();
    for file in &files {
        read_thread(&engine, &extractor, reasons, file, &mut contacts)?;
    }
    for contact in contacts.values() {
        let list = |all: &BTreeMap<String, Evidence>| all.keys().cloned().collect::<Vec<_>>().join(", ");
        let threads = contact.name.found.len();
        println!(
            "{}: {} {}, in {threads} threads",
            contact.name.value,
            list(&contact.emails),
            list(&contact.phones)
        );
    }
    let lines = contacts.values().map(serde_json::to_string).collect::<std::result::Result<Vec<_>, _>>()?;
    if let Some(folder) = args.output.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&args.output, lines.join("\n") + "\n")?;
    println!("{} contacts in {}", contacts.len(), args.output.display());
    Ok(())
}

/// Adds the people of a thread.
fn read_thread(
    engine: &Engine,
    extractor: &Extractor,
    reasons: bool,
    file: &Path,
    contacts: &mut BTreeMap<String, Contact>,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(file)?;
    let mut request = extractor.request(&text)?.max_tokens(400).close_before_limit(true);
    if reasons {
        request = request.think_until(REASONING.0, REASONING.1);
    }
    let output = engine.generate(&request)?;
    if reasons {
        let reasoning = output.text.split(REASONING.0).next().unwrap_or_default();
        println!("{}: {}", file.display(), reasoning.trim());
    }
    let extraction = finished(output)?;
    let spans = extraction.spans(&text);
    let name_of = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let people = extraction.record["people"].as_array().into_iter().flatten();
    for (i, person) in people.enumerate() {
        let evidence = |field: &str| {
            let value = person[field].as_str()?;
            let pointer = format!("/people/{i}/{field}");
            let found = spans.iter().find(|span| span.pointer == pointer)?;
            let spans = found.occurrences.clone();
            assert!(spans.iter().all(|span| &text[span.bytes.clone()] == value), "{value}: {spans:?}");
            Some((value.to_owned(), Place { file: name_of(file), spans }))
        };
        let Some((name, place)) = evidence("name") else { continue };
        let contact = contacts.entry(name.clone()).or_default();
        if contact.name.found.iter().all(|known| known.file != place.file) {
            add(&mut contact.name, name, place);
        }
        for (field, all) in [("email", &mut contact.emails), ("phone", &mut contact.phones)] {
            if let Some((value, place)) = evidence(field) {
                add(all.entry(value.clone()).or_default(), value, place);
            }
        }
    }
    Ok(())
}

fn add(evidence: &mut Evidence, value: String, place: Place) {
    evidence.value = value;
    evidence.found.push(place);
}
