//! GGUF models in several files: `name-00001-of-00003.gguf`.

use std::path::{Path, PathBuf};

use super::file::Gguf;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::model::loading::file_data::FileData;

/// Maximum number of files of one model.
const MAX_FILES: usize = 1 << 10;
/// Number of digits of an index and of the number of files.
const DIGITS: usize = 5;

/// Opens a GGUF file, and all others of the same model.
///
/// # Errors
/// Returns an error if a file is missing or is not valid.
pub(crate) fn open_gguf(path: &Path) -> Result<Gguf<'static>> {
    let paths = split_files(path);
    if paths.len() > MAX_FILES {
        let message = format!("{} files of one model, the limit is {MAX_FILES}", paths.len());
        return Err(Error::new(ErrorKind::TooComplex, message).at(Place::File(path.to_owned())));
    }
    let files: Result<Vec<_>> = paths.iter().map(|path| FileData::map(path)).collect();
    Gguf::open(files?)
}

/// Returns the files of the model that this file belongs to, in their order.
pub(crate) fn split_files(path: &Path) -> Vec<PathBuf> {
    let parts = path.file_name().and_then(|name| name.to_str()).and_then(split_name);
    match parts {
        Some((stem, _, count)) => (1..=count.min(MAX_FILES + 1))
            .map(|i| path.with_file_name(format!("{stem}-{i:0DIGITS$}-of-{count:0DIGITS$}.gguf")))
            .collect(),
        None => vec![path.to_owned()],
    }
}

/// Returns the common part of the names, the index of this file, and the number of files.
pub(crate) fn split_name(name: &str) -> Option<(&str, usize, usize)> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, index) = rest.rsplit_once('-')?;
    let number = |text: &str| match text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse::<usize>().ok(),
        false => None,
    };
    let (index, count) = (number(index)?, number(count)?);
    if (1..=count).contains(&index) { Some((stem, index, count)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_name_all_parts() {
        let all = |name: &str| -> Vec<String> {
            split_files(Path::new(name)).iter().map(|p| p.display().to_string()).collect()
        };
        let parts = ["m/a-00001-of-00002.gguf", "m/a-00002-of-00002.gguf"];
        assert_eq!(all(parts[0]), parts);
        assert_eq!(all(parts[1]), parts);
        for alone in ["m/a.gguf", "a-00003-of-00002.gguf", "a-1-of-2.gguf", "a-00001-of-00002.bin", "of"] {
            assert_eq!(all(alone), [alone]);
        }
        assert_eq!(all("a-00001-of-99999.gguf").len(), MAX_FILES + 1);
    }
}
