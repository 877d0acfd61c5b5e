//! Files of languages with texts: JSON Schemas with instances, as MaskBench and the JSON Schema Test
//! Suite have them, and grammars.

use std::path::{Path, PathBuf};

use ffwd_engine::json_scan::{JsonScan, ScanStep, decoded};
use ffwd_runtime::error::Place;
use ffwd_runtime::extract::corpus::read_text;
use ffwd_runtime::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::engine::Language;

/// Maximum number of languages in all files.
const MAX_SAMPLES: usize = 1_000_000;

/// A language with texts.
#[derive(Debug)]
pub(super) struct Sample {
    pub name: String,
    pub language: Language,
    /// Texts, and whether they are of the language.
    pub texts: Vec<(String, bool)>,
}

/// A schema with tests or a grammar with texts, as the files have it. Other members are ignored. An
/// object without all of them is a schema itself.
#[derive(Deserialize)]
struct SampleForm<'a> {
    id: Option<String>,
    description: Option<String>,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
    #[serde(borrow)]
    tests: Option<Vec<InstanceForm<'a>>>,
    grammar: Option<PathBuf>,
    lark: Option<PathBuf>,
    #[serde(default)]
    texts: Vec<String>,
}

#[derive(Deserialize)]
struct InstanceForm<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
    valid: bool,
}

/// Reads all files.
///
/// # Errors
/// If there is nothing in them, or one is no such file.
pub(super) fn read_all(files: &[PathBuf]) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    files.iter().try_for_each(|file| read(file, &mut samples))?;
    if samples.is_empty() {
        let file = files.first().cloned().unwrap_or_default();
        let error = Error::new(ErrorKind::InvalidJson, "there is no schema and no grammar");
        return Err(error.at(Place::File(file)));
    }
    Ok(samples)
}

/// Reads a file of schemas or grammars: JSON, or JSON Lines if its name ends in `.jsonl`. Paths of
/// grammars start at its folder.
///
/// # Errors
/// With the line if it is no such file.
fn read(file: &Path, samples: &mut Vec<Sample>) -> Result<()> {
    let text = read_text(file)?;
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = file.parent().unwrap_or(Path::new(""));
    let parts: Vec<(usize, &str)> = match file.extension().is_some_and(|extension| extension == "jsonl") {
        // Only a line feed ends a line: strings hold other separators.
        true => text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()).collect(),
        false => vec![(0, &text)],
    };
    for (line, part) in parts {
        let fault = |message: String, line: usize, column: usize| {
            Error::new(ErrorKind::InvalidJson, message)
                .at(Place::LineColumn(line, column))
                .at(Place::File(file.into()))
                .hint("an entry is {\"schema\": ..., \"tests\": [{\"data\": ..., \"valid\": true}]} or {\"grammar\": \"FILE.lark\", \"texts\": [...]}")
        };
        let forms = many(part).map_err(|e| fault(e.to_string(), line + e.line().max(1), e.column()))?;
        for form in forms {
            let wrong = |message: String| fault(message, line + 1, 1);
            if samples.len() >= MAX_SAMPLES {
                return Err(wrong(format!("more than {MAX_SAMPLES} schemas and grammars")));
            }
            let number = samples.len() + 1;
            let name = form.id.or(form.description).unwrap_or_else(|| format!("{stem}-{number}"));
            let (language, texts) = match (form.schema, form.grammar) {
                (None, Some(grammar)) if form.texts.is_empty() => {
                    return Err(wrong(format!("the grammar {} has no texts", grammar.display())));
                }
                (None, Some(grammar)) => {
                    let text = || read_text(&folder.join(&grammar));
                    let language = match grammar.extension().and_then(|end| end.to_str()) {
                        Some("lark") => Language::Lark(text()?),
                        Some("gbnf") => {
                            let lark = form.lark.map(|lark| read_text(&folder.join(lark))).transpose()?;
                            Language::Gbnf { text: text()?, lark }
                        }
                        _ => return Err(wrong("the name of a grammar ends in .lark or .gbnf".to_owned())),
                    };
                    (language, form.texts.into_iter().map(|text| (text, true)).collect())
                }
                (schema, _) => {
                    let schema = match schema {
                        Some(schema) => schema.get(),
                        None if form.tests.is_none() && !part.trim_start().starts_with('[') => part,
                        None => return Err(wrong("an entry has no `schema`".to_owned())),
                    };
                    let tests = form.tests.iter().flatten();
                    let texts = tests.filter_map(|test| Some((canonical(test.data.get())?, test.valid)));
                    (Language::JsonSchema(schema.to_owned()), texts.collect())
                }
            };
            samples.push(Sample { name, language, texts });
        }
    }
    Ok(())
}

fn many(text: &str) -> serde_json::Result<Vec<SampleForm<'_>>> {
    // An untagged enum has no position of its faults, so the first byte decides.
    match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text),
        false => serde_json::from_str(text).map(|form| vec![form]),
    }
}

/// Returns a JSON text without white space, with every string in the one form in which the engine
/// writes it; numbers and order are untouched. `None` if a string is no Unicode text, which no
/// vocabulary can spell.
fn canonical(text: &str) -> Option<String> {
    let mut scan = JsonScan::of_all_values(usize::MAX);
    let mut out = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match scan.feed(byte) {
            ScanStep::ClosesString { start, .. } => {
                let decoded = decoded(&text.as_bytes()[start..=at])?;
                out.push('"');
                out.push_str(std::str::from_utf8(&ffwd_engine::json_escape::escape(&decoded)).ok()?);
                out.push('"');
            }
            _ if scan.string().is_some() || byte.is_ascii_whitespace() => {}
            _ => out.push(char::from(byte)),
        }
    }
    scan.string().is_none().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_canonical() {
        let text = "{ \"a\\u0062\" : [ 1.50e+3 , \"\\/\\n\\u00e9\" ] }";
        assert_eq!(canonical(text).unwrap(), "{\"ab\":[1.50e+3,\"/\\né\"]}");
        assert_eq!(canonical("\"\\ud800\""), None);
        // Against a parser, where numbers have one form.
        let value = serde_json::json!({"x": ["\u{1}\"\\", null, true, {"é": 1.5}]});
        let text = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&canonical(&text).unwrap()).unwrap(), value);
    }

    #[test]
    fn files_of_all_forms_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut samples = Vec::new();
        let one = r#"{"schema": {"type": "integer"}, "tests": [{"data": 1, "valid": true}]}"#;
        for (name, text) in [
            ("one.json", one.to_owned()),
            ("suite.json", format!("[{one}, {one}]")),
            ("lines.jsonl", format!("{one}\n\n{one}\n")),
            ("plain.json", r#"{"type": "integer", "description": "mine"}"#.to_owned()),
        ] {
            let file = dir.path().join(name);
            std::fs::write(&file, text).unwrap();
            read(&file, &mut samples).unwrap();
        }
        let names: Vec<&str> = samples.iter().map(|sample| sample.name.as_str()).collect();
        assert_eq!(names, ["one-1", "suite-2", "suite-3", "lines-4", "lines-5", "mine"]);
        assert_eq!(samples[4].texts, [("1".to_owned(), true)]);
        let plain = Language::JsonSchema(r#"{"type": "integer", "description": "mine"}"#.to_owned());
        assert!(samples[5].texts.is_empty() && samples[5].language == plain);
        let file = dir.path().join("bad.jsonl");
        std::fs::write(&file, format!("{one}\n{{\"schema\": 1, \"tests\": 3}}\n")).unwrap();
        let error = read(&file, &mut samples).err().unwrap();
        assert!(error.places().iter().any(|place| matches!(place, Place::LineColumn(2, _))), "{error}");
    }

    #[test]
    fn grammars_are_read_from_the_folder_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (file, mut samples) = (dir.path().join("c.jsonl"), Vec::new());
        std::fs::write(dir.path().join("a.lark"), "start: \"a\"").unwrap();
        std::fs::write(dir.path().join("a.gbnf"), "root ::= \"a\"").unwrap();
        let lines = "{\"id\": \"a\", \"grammar\": \"a.lark\", \"texts\": [\"a\"], \"refused\": [\"b\"]}\n\n\
                     {\"id\": \"b\", \"grammar\": \"a.gbnf\", \"lark\": \"a.lark\", \"texts\": [\"a\"]}\n";
        std::fs::write(&file, lines).unwrap();
        read(&file, &mut samples).unwrap();
        let lark = "start: \"a\"".to_owned();
        let gbnf = Language::Gbnf { text: "root ::= \"a\"".to_owned(), lark: Some(lark.clone()) };
        let found: Vec<_> = samples.iter().map(|s| (&*s.name, &s.language)).collect();
        assert_eq!(found, [("a", &Language::Lark(lark)), ("b", &gbnf)]);
        for (line, part) in [
            ("{\"id\": \"a\", \"grammar\": \"a.txt\", \"texts\": [\"a\"]}", ".gbnf"),
            ("{\"id\": \"a\", \"grammar\": \"a.lark\", \"texts\": []}", "no texts"),
            ("{\"id\": \"a\", \"grammar\": \"a.lark\", \"text\": []}", "text"),
        ] {
            std::fs::write(&file, format!("\n{line}")).unwrap();
            let error = read(&file, &mut samples).unwrap_err();
            assert!(error.message().contains(part), "{error}");
            assert!(error.places().contains(&Place::File(file.clone())), "{error}");
        }
    }
}
