//! Bounds that keep the documents short and the code easy to find: lengths of pages and files,
//! names of types, links.

use std::collections::BTreeMap;
use std::path::Path;

use super::layers::rust_files;

/// Longest sentence in words.
const MAX_SENTENCE: usize = 30;
/// Longest source file in lines.
const MAX_LINES: usize = 700;
/// Type names that each module may use for its own.
const USUAL: [&str; 2] = ["Args", "Parser"];

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The prose of a page: paragraphs and list items, without code blocks, tables and headings.
fn prose(page: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut fenced = false;
    for line in page.lines() {
        let text = line.trim();
        if text.starts_with("```") {
            fenced = !fenced;
            paragraphs.push(String::new());
        } else if fenced || text.is_empty() || text.starts_with(['|', '#', '<']) {
            paragraphs.push(String::new());
        } else {
            if text.starts_with("- ") || text.starts_with("* ") {
                paragraphs.push(String::new());
            }
            let last = paragraphs.last_mut().expect("never empty");
            last.push(' ');
            last.push_str(text);
        }
    }
    paragraphs.retain(|p| !p.trim().is_empty());
    paragraphs
}

fn sentences(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in prose(page) {
        let mut rest = paragraph.as_str();
        while let Some(end) = rest.find(['.', '!', '?', ':', ';']) {
            let (sentence, more) = rest.split_at(end + 1);
            if more.is_empty() || more.starts_with(' ') {
                found.push(sentence.trim().to_owned());
                rest = more;
            } else {
                // A point inside of a word: join it with what follows.
                let next = more.find(' ').unwrap_or(more.len());
                let joined = end + 1 + next;
                if next == more.len() {
                    break;
                }
                match rest[joined - 1..].starts_with(['.', ':', ';']) {
                    true => {
                        found.push(rest[..joined].trim().to_owned());
                        rest = &rest[joined..];
                    }
                    false => {
                        let tail = rest[joined..].find(['.', '!', '?', ':', ';']).map(|i| joined + i + 1);
                        let Some(tail) = tail else { break };
                        found.push(rest[..tail].trim().to_owned());
                        rest = &rest[tail..];
                    }
                }
            }
        }
        found.push(rest.trim().to_owned());
    }
    found
}

#[test]
fn the_readme_is_short() {
    let readme = page("README.md");
    let words = readme.split_whitespace().count();
    assert!(words <= 900, "README.md has {words} words");
    for sentence in sentences(&readme) {
        let words = sentence.split_whitespace().count();
        assert!(words <= MAX_SENTENCE, "README.md, {words} words: {sentence}");
    }
}

#[test]
fn pages_stay_within_their_bounds() {
    let words = page("docs/decoding.md").split_whitespace().count();
    assert!(words <= 2_500, "docs/decoding.md has {words} words");
    let terms =
        page("docs/glossary.md").lines().filter(|l| l.starts_with("- **") || l.starts_with("**")).count();
    assert!((1..=40).contains(&terms), "docs/glossary.md has {terms} terms");
}

/// Links of a page into the repository: `](path)`, without anchors and addresses.
fn links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let targets = targets.filter(|t| !t.contains("://") && !t.starts_with('#'));
    targets.map(|t| t.split('#').next().unwrap_or_default()).collect()
}

#[test]
fn links_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".into(), "CHANGELOG.md".into()];
    for entry in std::fs::read_dir(root.join("docs")).expect("a folder") {
        pages.push(format!("docs/{}", entry.expect("an entry").file_name().to_string_lossy()));
    }
    for name in pages.iter().filter(|name| name.ends_with(".md")) {
        let folder = root.join(name).parent().expect("a file is in a folder").to_path_buf();
        for link in links(&page(name)) {
            assert!(folder.join(link).exists(), "{name} links to {link}");
        }
    }
}

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src", "crates", "tests", "benches", "examples"];
    let files = folders.iter().flat_map(|folder| rust_files(&root.join(folder)));
    let read = |file: std::path::PathBuf| {
        let text = std::fs::read_to_string(&file).expect("a source file");
        (file.strip_prefix(root).expect("below the root").display().to_string(), text)
    };
    files.map(read).collect()
}

#[test]
fn tests_that_a_page_names_exist() {
    let tests: String = sources().into_iter().map(|(_, text)| text).collect();
    let page = page("docs/elsewhere.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    assert!(rows.len() > 9);
    for row in rows {
        let cell = row.trim_end_matches('|').rsplit('|').next().expect("a cell");
        let named: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{row}");
        for name in named {
            let there = match name.ends_with(".py") {
                true => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name).exists(),
                false => tests.contains(&format!("fn {name}()")),
            };
            assert!(there, "docs/elsewhere.md names `{name}`");
        }
    }
}

#[test]
fn files_are_short() {
    for (name, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= MAX_LINES, "{name} has {lines} lines");
    }
}

/// The name of the type that a line of code at the top of a file defines.
fn defined(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None if line.starts_with(' ') => return None,
        None => line,
    };
    let keywords = ["struct ", "enum ", "trait ", "union "];
    let rest = keywords.iter().find_map(|keyword| line.trim_start().strip_prefix(keyword))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[test]
fn no_type_name_is_defined_three_times() {
    assert_eq!(defined("pub(in crate::constraint) struct Shape<'a> {"), Some("Shape"));
    assert_eq!((defined("enum Kind {"), defined("use super::union::Union;")), (Some("Kind"), None));
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, text) in sources() {
        for (i, line) in text.lines().enumerate() {
            if let Some(defined) = defined(line) {
                places.entry(defined.to_owned()).or_default().push(format!("{name}:{}", i + 1));
            }
        }
    }
    places.retain(|name, list| list.len() > 2 && !USUAL.contains(&name.as_str()));
    assert!(places.is_empty(), "{places:#?}");
}
