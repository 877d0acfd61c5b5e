//! Files of grammars with texts: JSON Lines that name the files of the grammars.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::super::args::read_text;
use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum number of grammars in all files.
const MAX_GRAMMARS: usize = 10_000;

/// A grammar with texts of its language.
#[derive(Debug)]
pub(super) struct GrammarSample {
    pub name: String,
    pub grammar: String,
    pub notation: Notation,
    /// The same language for engines that read Lark's notation only.
    #[cfg_attr(not(feature = "llguidance"), allow(dead_code))]
    pub lark: Option<String>,
    pub texts: Vec<String>,
}

/// How a grammar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    Lark,
    Gbnf,
}

/// A line of a file. `refused` is for tests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SampleLine {
    id: String,
    grammar: PathBuf,
    lark: Option<PathBuf>,
    texts: Vec<String>,
    #[serde(default, rename = "refused")]
    _refused: Vec<String>,
}

/// Reads a file and the grammars that it names. Their paths start at its folder.
///
/// # Errors
/// With the line if it is no such file.
pub(super) fn read(file: &Path, samples: &mut Vec<GrammarSample>) -> Result<()> {
    let text = read_text(file)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    // Only a line feed ends a line: strings hold other separators.
    for (number, line) in text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fault = |message: String, column: usize| {
            Error::new(ErrorKind::InvalidJson, message)
                .at(Place::LineColumn(number + 1, column))
                .at(Place::File(file.into()))
                .hint("a line is {\"id\": ..., \"grammar\": \"FILE.lark\", \"texts\": [...]}")
        };
        let line: SampleLine = serde_json::from_str(line).map_err(|e| fault(e.to_string(), e.column()))?;
        if samples.len() >= MAX_GRAMMARS {
            return Err(fault(format!("more than {MAX_GRAMMARS} grammars"), 1));
        }
        if line.texts.is_empty() {
            return Err(fault(format!("{:?} has no texts", line.id), 1));
        }
        let notation = match line.grammar.extension().and_then(|e| e.to_str()) {
            Some("lark") => Notation::Lark,
            Some("gbnf") => Notation::Gbnf,
            _ => return Err(fault("the name of a grammar ends in .lark or .gbnf".to_owned(), 1)),
        };
        samples.push(GrammarSample {
            name: line.id,
            grammar: read_text(&folder.join(line.grammar))?,
            notation,
            lark: line.lark.map(|lark| read_text(&folder.join(lark))).transpose()?,
            texts: line.texts,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let found: Vec<_> = samples.iter().map(|s| (&*s.name, s.notation, s.lark.is_some())).collect();
        assert_eq!(found, [("a", Notation::Lark, false), ("b", Notation::Gbnf, true)]);
        assert_eq!(samples[1].grammar, "root ::= \"a\"");
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
