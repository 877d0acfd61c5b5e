//! Files of users, read up to a limit.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, ErrorKind, Place, Result};

/// Returns the bytes of a file.
///
/// # Errors
/// Returns an error if the file cannot be read or has more than `limit` bytes.
pub(crate) fn read_at_most(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|e| Error::io(path, &e))?;
    match bytes.len() > limit {
        true => Err(Error::new(ErrorKind::TooComplex, format!("more than the limit of {limit} bytes"))
            .at(Place::File(path.to_owned()))),
        false => Ok(bytes),
    }
}
