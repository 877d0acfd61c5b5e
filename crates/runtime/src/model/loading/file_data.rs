//! The bytes of a model file: mapped into memory, or borrowed from the caller.
//!
//! # Cost
//!
//! Mapping takes microseconds. Pages are read when they are touched. [`FileData::release`] gives
//! them back, so a file that is converted piece by piece never takes memory as a whole.
//!
//! # Alternatives considered
//!
//! Reading into buffers was rejected: it copies every weight once more, on one thread.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::Mmap;

use crate::error::{Error, Result};

/// The bytes of one file. A mapped file must not change until the model is loaded.
pub(crate) enum FileData<'a> {
    /// A file on disk.
    Mapped(Mmap),
    /// Bytes of the caller.
    Borrowed(&'a [u8]),
}

impl FileData<'_> {
    /// Maps a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub(super) fn map(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, &e))?;
        // SAFETY: the map is only read. A program that changes the file meanwhile would change
        // these bytes; all that is read from them is checked or is a number of any value.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io(path, &e))?;
        Ok(FileData::Mapped(map))
    }

    /// Gives back the memory of these bytes. Reading them again reads the file again.
    pub(super) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let FileData::Mapped(map) = self {
            // Only whole pages within the range: others hold bytes that may be in use.
            let (start, end) = (range.start.next_multiple_of(PAGE), range.end.min(map.len()) / PAGE * PAGE);
            if start < end {
                // SAFETY: the map is of a file and is only read, so its pages keep their content.
                // A failure leaves the pages where they are.
                let _ = unsafe {
                    map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start)
                };
            }
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}

/// Granularity of [`FileData::release`]: at least the size of a page on all common systems.
#[cfg(unix)]
const PAGE: usize = 1 << 16;

impl Deref for FileData<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            FileData::Mapped(map) => map,
            FileData::Borrowed(bytes) => bytes,
        }
    }
}
