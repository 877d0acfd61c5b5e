//! Files of schemas with instances: those of MaskBench, JSON Lines of them, and the JSON Schema Test
//! Suite.

use std::path::Path;

use ffwd_engine::json_scan::{JsonScan, ScanStep, decoded};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::super::args::read_text;
use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum number of schemas in all files.
const MAX_SCHEMAS: usize = 1_000_000;

/// A schema with its instances.
pub(super) struct Sample {
    pub name: String,
    pub schema: String,
    pub instances: Vec<(String, bool)>,
}

/// A schema with tests, as the files have it. Other members are ignored. An object with neither is a
/// schema itself.
#[derive(Deserialize)]
struct SampleForm<'a> {
    id: Option<String>,
    description: Option<String>,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
    #[serde(borrow)]
    tests: Option<Vec<InstanceForm<'a>>>,
}

#[derive(Deserialize)]
struct InstanceForm<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
    valid: bool,
}

/// Reads a file: JSON, or JSON Lines if its name ends in `.jsonl`.
///
/// # Errors
/// With the line if it is no such file.
pub(super) fn read(file: &Path, samples: &mut Vec<Sample>) -> Result<()> {
    let text = read_text(file)?;
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let by_line = file.extension().is_some_and(|extension| extension == "jsonl");
    let parts: Vec<(usize, &str)> = match by_line {
        // Only a line feed ends a line: strings hold other separators.
        true => text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()).collect(),
        false => vec![(0, &text)],
    };
    for (line, part) in parts {
        let fault = |message: String, line: usize, column: usize| {
            Error::new(ErrorKind::InvalidJson, message)
                .at(Place::LineColumn(line, column))
                .at(Place::File(file.into()))
                .hint("an entry is {\"schema\": ..., \"tests\": [{\"data\": ..., \"valid\": true}]}")
        };
        let forms = many(part).map_err(|e| fault(e.to_string(), line + e.line().max(1), e.column()))?;
        for form in forms {
            if samples.len() >= MAX_SCHEMAS {
                return Err(fault(format!("more than {MAX_SCHEMAS} schemas"), line + 1, 1));
            }
            let schema = match (&form.schema, &form.tests) {
                (Some(schema), _) => schema.get(),
                (None, None) if !part.trim_start().starts_with('[') => part,
                (None, _) => return Err(fault("an entry has no `schema`".to_owned(), line + 1, 1)),
            };
            let number = samples.len() + 1;
            let name = form.id.or(form.description).unwrap_or_else(|| format!("{stem}-{number}"));
            let instances = form
                .tests
                .iter()
                .flatten()
                .filter_map(|test| Some((canonical(test.data.get())?, test.valid)));
            let instances = instances.collect();
            samples.push(Sample { name, schema: schema.to_owned(), instances });
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
pub(super) fn canonical(text: &str) -> Option<String> {
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
        assert_eq!(samples[4].instances, [("1".to_owned(), true)]);
        assert!(samples[5].instances.is_empty() && samples[5].schema.contains("integer"));
        let file = dir.path().join("bad.jsonl");
        std::fs::write(&file, format!("{one}\n{{\"schema\": 1, \"tests\": 3}}\n")).unwrap();
        let error = read(&file, &mut samples).err().unwrap();
        assert!(error.places().iter().any(|place| matches!(place, Place::LineColumn(2, _))), "{error}");
    }
}
