//! GGUF files: their metadata, and the tokenizer in them.

mod metadata;
mod tokenizer;

use std::io::Read;

pub use metadata::{Cursor, MAGIC, Metadata, TEMPLATE};

/// Number of bytes that are read at first: tokenizers have a few megabytes.
const FIRST_BYTES: u64 = 1 << 23;

/// Returns true for the beginning of a GGUF file.
pub(super) fn is_gguf(content: &[u8]) -> bool {
    content.starts_with(MAGIC)
}

/// Reads about as much of a file as its metadata need; `content` is its beginning.
///
/// # Errors
/// Returns the errors of reading.
pub(super) fn read_metadata(file: &mut impl Read, content: &mut Vec<u8>) -> std::io::Result<()> {
    read_from(file, content, FIRST_BYTES)
}

fn read_from(file: &mut impl Read, content: &mut Vec<u8>, first: u64) -> std::io::Result<()> {
    let mut more = first;
    while file.by_ref().take(more).read_to_end(content)? > 0 {
        let mut cursor = Cursor::new(content);
        // What is wrong with the metadata is said when they are read.
        if Metadata::read(&mut cursor).is_ok() || !cursor.ended() {
            break;
        }
        more = content.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ffwd_testkit::gguf_file::{MetaValue, file};

    use super::*;

    #[test]
    fn files_are_read_as_far_as_their_metadata() {
        let texts = (0..40).map(|i| (format!("key{i}"), MetaValue::Text("x".repeat(i * 7))));
        let lists = (0..9).map(|i| (format!("list{i}"), MetaValue::U32s(vec![i; 50])));
        let metadata: Vec<_> = texts.chain(lists).collect();
        let mut whole = file(&metadata, &[]);
        let end = whole.len();
        whole.resize(end * 20, 7);
        for first in [1, 3, 100, end as u64, 1 << 20] {
            let mut content = Vec::new();
            read_from(&mut &whole[..], &mut content, first).unwrap();
            assert!(content.len() >= end && content == whole[..content.len()], "{first}");
            assert!(content.len() <= (end * 2).max(first as usize), "{first}: {} bytes", content.len());
            let (read, _) = Metadata::read(&mut Cursor::new(&content)).unwrap();
            assert_eq!(read.text("key5"), Some(&*"x".repeat(35)));
            assert_eq!(read.number_list(&content, "list8", 50).unwrap().unwrap(), [8.0; 50]);
        }
        // What is no GGUF file is not read to its end, and what ends early is read once.
        let mut content = b"GGUF".to_vec();
        read_from(&mut &[9; 1000][..], &mut content, 10).unwrap();
        assert_eq!(content.len(), 14);
        let mut content = Vec::new();
        read_from(&mut &whole[..end / 2], &mut content, 10).unwrap();
        assert_eq!(content, whole[..end / 2]);
    }
}
