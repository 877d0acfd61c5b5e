//! Documents of all kinds: the first byte chooses the kind, the others are the file.
#![no_main]

use std::path::Path;

const NAMES: [&str; 6] = ["a.pdf", "a.eml", "a.mbox", "a.html", "a.hocr", "a.docx"];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let name = NAMES[usize::from(*kind) % NAMES.len()];
    let Ok(Some(texts)) = ffwd_documents::read(Path::new(name), bytes) else { return };
    for text in texts {
        for word in text.words {
            assert!(word.page > 0 && !text.text[word.bytes].is_empty());
        }
    }
});
