//! What made the records of an output: the lines of the file beside it, one for each run whose
//! records are in it.
//!
//! A run is known by the digest of everything that determines its records but the texts. Each line of
//! the output has the digest of its run, so a resumed run finds the records that others have made,
//! and this file tells it how they differ.
//!
//! # Cost
//!
//! A model's files are digested once for each run of the program: the first megabytes, with the head
//! and the table of tensors, and blocks of the rest.
//!
//! # Alternatives considered
//!
//! A digest of all weights was rejected: it reads gigabytes before the first record. Size, time and
//! path find what the blocks miss.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::journal::{replace, with_suffix};
use super::task::json;
use crate::decode::Engine;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::Extractor;
#[cfg(feature = "embedded")]
use crate::model::embedded::{DRAFT_GGUF, TARGET_GGUF, TOKENIZER_JSON};

/// The end of the name of the file.
pub(super) const RUNS: &str = ".runs";
/// Bytes at the begin of a file that are digested.
const HEAD: u64 = 16 << 20;
/// Blocks of the rest that are digested, and their size.
const BLOCKS: u64 = 64;
const BLOCK: u64 = 4 << 10;
/// Length up to which a message shows a value.
const SHOWN: usize = 60;

/// What made records, by name, such as `schema` or `--max-tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MadeBy(BTreeMap<String, String>);

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct RunLine {
    run: String,
    made_by: MadeBy,
}

impl MadeBy {
    /// Begins with the version of this program.
    pub(super) fn new() -> MadeBy {
        MadeBy(BTreeMap::from([("ffwd".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]))
    }

    pub(super) fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Adds what an engine and an extractor make of any text.
    ///
    /// # Errors
    /// If a file of the model cannot be read.
    pub(super) fn add_model(&mut self, engine: &Engine, extractor: &Extractor) -> Result<()> {
        let schema = extractor.schema();
        self.add_text("schema", &schema.text);
        self.add_text("schema options", &format!("{:?} {:?}", schema.options.policy, schema.options.spans));
        for (uri, text) in &schema.options.documents {
            self.add_text(&format!("schema {uri}"), text);
        }
        // The template, the instructions and the examples are around any text.
        self.add_text("prompt", &extractor.prompt("x")?.to_text());
        match engine.path() {
            Some(path) => self.add_files("model", path)?,
            None => self.add("model", "embedded"),
        }
        #[cfg(feature = "embedded")]
        if engine.path().is_none() {
            let mut digest = Sha256::new();
            [TARGET_GGUF, DRAFT_GGUF, TOKENIZER_JSON].iter().for_each(|file| digest.update(file));
            self.add("model: digest", hex(&digest.finalize()));
        }
        if let Some(adapter) = engine.adapter() {
            for file in adapter.files() {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                self.add_files(&format!("adapter {name}"), file)?;
            }
            self.add("adapter: scale", adapter.scale().to_string());
        }
        Ok(())
    }

    /// Adds the digest of a text.
    pub(super) fn add_text(&mut self, name: &str, text: &str) {
        self.add(name, hex(&Sha256::digest(text)));
    }

    /// Adds a file, or the files of a folder: path, size, time, and a digest of parts.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn add_files(&mut self, name: &str, path: &Path) -> Result<()> {
        let whole = path.canonicalize().map_err(|e| Error::io(path, &e))?;
        let mut files = vec![whole.clone()];
        if whole.is_dir() {
            let entries = std::fs::read_dir(&whole).map_err(|e| Error::io(path, &e))?;
            files =
                entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|file| file.is_file()).collect();
            files.sort();
        }
        self.add(name, whole.to_string_lossy());
        for file in files {
            let inner = file.strip_prefix(&whole).unwrap_or(Path::new("")).to_string_lossy();
            let inner = if inner.is_empty() { name.to_owned() } else { format!("{name}: {inner}") };
            let known = known_file(&file).map_err(|e| Error::io(&file, &e))?;
            for (what, value) in ["bytes", "time", "digest"].into_iter().zip(known) {
                self.add(format!("{inner}: {what}"), value);
            }
        }
        Ok(())
    }

    /// Returns the digest, by which a line knows its run.
    pub(super) fn run(&self) -> u64 {
        let mut digest = Sha256::new();
        for part in self.0.iter().flat_map(|(name, value)| [name, value]) {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().iter().take(8).fold(0, |run, byte| run << 8 | u64::from(*byte))
    }

    /// Returns in words how another run differs.
    fn differences(&self, other: &MadeBy) -> String {
        let names = self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name)));
        let differs = |name: &String| -> Option<String> {
            let (was, is) = (other.0.get(name), self.0.get(name));
            let shown = |value: Option<&String>| value.map_or("not given".to_owned(), Clone::clone);
            match (was != is, [was, is].iter().flatten().all(|v| v.len() <= SHOWN && !is_digest(v))) {
                (false, _) => None,
                (true, true) => Some(format!("{name} was {} and is {}", shown(was), shown(is))),
                (true, false) => Some(format!("{name} differs")),
            }
        };
        names.filter_map(differs).collect::<Vec<_>>().join(", ")
    }
}

/// Returns size, time and digest of a file.
fn known_file(path: &Path) -> std::io::Result<[String; 3]> {
    let mut file = File::open(path)?;
    let about = file.metadata()?;
    let time = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut digest = Sha256::new();
    let mut bytes = Vec::new();
    (&mut file).take(HEAD).read_to_end(&mut bytes)?;
    digest.update(&bytes);
    for block in 0..if about.len() > HEAD { BLOCKS } else { 0 } {
        bytes.clear();
        file.seek(SeekFrom::Start(HEAD + (about.len() - HEAD) / BLOCKS * block))?;
        (&mut file).take(BLOCK).read_to_end(&mut bytes)?;
        digest.update(&bytes);
    }
    let time = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    Ok([about.len().to_string(), time, hex(&digest.finalize())])
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_digest(value: &str) -> bool {
    value.len() == 64 && value.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The file beside an output.
pub(super) struct Runs {
    path: PathBuf,
    known: Vec<RunLine>,
}

impl Runs {
    /// Reads the file of an output. Without one, nothing is known.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(output: &Path) -> Result<Runs> {
        let path = with_suffix(output, RUNS);
        let text = match std::fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.map_err(|e| Error::io(&path, &e))?,
        };
        let known = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Runs { path, known })
    }

    /// Returns the error about records that other runs have made.
    pub(super) fn other_run(&self, output: &Path, mine: &MadeBy, others: &[u64]) -> Error {
        let of = |run: &u64| self.known.iter().find(|known| known.run == format!("{run:016x}"));
        let how = match others.iter().find_map(of) {
            Some(known) => mine.differences(&known.made_by),
            None => format!("{} does not say by what", self.path.display()),
        };
        let message = format!("the output has records of another schema, model or options: {how}");
        Error::new(ErrorKind::InvalidOption, message)
            .at(Place::File(output.into()))
            .hint("--restart begins it anew, --resume=keep keeps these records beside those of this run")
    }

    /// Writes this run to the file, with the runs whose records are kept.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(mut self, mine: MadeBy, kept: &[u64]) -> Result<()> {
        if let [known] = &self.known[..]
            && known.made_by == mine
            && kept.is_empty()
        {
            return Ok(());
        }
        self.known.retain(|known| kept.iter().any(|run| known.run == format!("{run:016x}")));
        self.known.push(RunLine { run: format!("{:016x}", mine.run()), made_by: mine });
        replace(&self.path, |to| {
            for run in &self.known {
                writeln!(to, "{}", json(run)?).map_err(|e| Error::io(&self.path, &e))?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_known_by_what_is_in_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m.gguf");
        let mut bytes: Vec<u8> = (0..HEAD as usize + (1 << 20)).map(|i| (i % 251) as u8).collect();
        std::fs::write(&file, &bytes).unwrap();
        let known = |path: &Path| {
            let mut made_by = MadeBy::new();
            made_by.add_files("model", path).unwrap();
            made_by
        };
        let first = known(&file);
        assert_eq!(first.run(), known(&file).run());
        // The head, and the last of the blocks; the time is that of another second at most.
        let last = HEAD as usize + ((1 << 20) / BLOCKS * (BLOCKS - 1)) as usize;
        for at in [0, HEAD as usize - 1, last] {
            bytes[at] ^= 1;
            std::fs::write(&file, &bytes).unwrap();
            let changed = known(&file);
            assert_ne!(first.0["model: digest"], changed.0["model: digest"], "{at}");
            assert!(changed.differences(&first).contains("model: digest differs"));
            bytes[at] ^= 1;
        }
        std::fs::write(dir.path().join("config.json"), "{}").unwrap();
        let folder = known(dir.path());
        assert_eq!(folder.0["model: config.json: bytes"], "2");
    }

    #[test]
    fn differences_are_named() {
        let (mut was, mut is) = (MadeBy::new(), MadeBy::new());
        was.add("--max-tokens", "64");
        is.add("--max-tokens", "512");
        was.add_text("schema", "{}");
        is.add_text("schema", "true");
        is.add("--strict", "true");
        let found = is.differences(&was);
        assert_eq!(
            found,
            "--max-tokens was 64 and is 512, --strict was not given and is true, schema differs"
        );
    }
}
