//! Word: the paragraphs and tables of a `.docx` file, and its notes.
//!
//! Pages are not stored in such a file, so its words have no places.
//!
//! # Cost
//! One pass over the text's XML. Entities of the file itself are not expanded.

use std::io::{Cursor, Read};

use ffwd_engine::{Error, ErrorKind, Result};
use quick_xml::Reader as XmlReader;
use quick_xml::events::Event;
use zip::ZipArchive;

use crate::document::{MAX_UNPACKED, Text};
use crate::reader::{DocumentKind, Nested, broken};

/// The beginnings of the names of parts that have text, in their order.
const PARTS: [&str; 5] = ["word/header", "word/document", "word/footnotes", "word/endnotes", "word/footer"];

pub(crate) struct Docx;

impl DocumentKind for Docx {
    fn endings(&self) -> &'static [&'static str] {
        &["docx"]
    }

    fn read(&self, bytes: &[u8], _: Nested<'_>) -> Result<Vec<Text>> {
        let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| broken("Word file", &error))?;
        // Some programs number the parts, or write names as those of Windows.
        let place = |name: &str| {
            let plain = name.replace('\\', "/").to_ascii_lowercase();
            let place = PARTS.iter().position(|part| plain.starts_with(part) && plain.ends_with(".xml"))?;
            Some((place, name.to_owned()))
        };
        let mut parts: Vec<(usize, String)> = archive.file_names().filter_map(place).collect();
        parts.sort();
        if !parts.iter().any(|(place, _)| PARTS[*place] == "word/document") {
            return Err(broken("Word file", &"it has no text"));
        }
        let mut text = String::new();
        for (_, part) in parts {
            let file = archive.by_name(&part).map_err(|error| broken("Word file", &error))?;
            add_part(&mut text, &unpacked(file)?)?;
        }
        Ok(vec![Text { text, ..Text::default() }])
    }
}

fn unpacked(file: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_UNPACKED as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| broken("Word file", &error))?;
    if bytes.len() > MAX_UNPACKED {
        let message = format!("its text unpacks to more than {} MiB", MAX_UNPACKED >> 20);
        return Err(Error::new(ErrorKind::TooComplex, message));
    }
    Ok(bytes)
}

fn add_part(out: &mut String, xml: &[u8]) -> Result<()> {
    let xml = String::from_utf8_lossy(xml);
    let mut reader = XmlReader::from_str(&xml);
    let (mut in_text, mut skipped, mut cells) = (false, 0, 0);
    loop {
        let event = reader.read_event().map_err(|error| broken("Word file", &error))?;
        match &event {
            Event::Eof => break,
            // What older programs show in place of a drawing, whose text is there already.
            Event::Start(tag) if tag.name().as_ref().ends_with("Fallback") => skipped += 1,
            Event::End(tag) if tag.name().as_ref().ends_with("Fallback") => skipped -= 1,
            _ if skipped > 0 => {}
            Event::Start(tag) => match tag.local_name().as_ref() {
                "t" => in_text = true,
                "tbl" => cells = 0,
                "tr" => cells = 0,
                "tc" => {
                    if cells > 0 {
                        out.truncate(out.trim_end_matches('\n').len());
                        out.push_str("  ");
                    }
                    cells += 1;
                }
                _ => {}
            },
            Event::End(tag) => match tag.local_name().as_ref() {
                "t" => in_text = false,
                "p" => out.push('\n'),
                "tr" | "tbl" => cells = 0,
                _ => {}
            },
            Event::Empty(tag) => match tag.local_name().as_ref() {
                "tab" => out.push_str("  "),
                "br" | "cr" => out.push('\n'),
                "noBreakHyphen" => out.push('-'),
                "p" => out.push('\n'),
                _ => {}
            },
            Event::Text(text) if in_text => out.push_str(&text.xml10_content()),
            Event::CData(text) if in_text => out.push_str(&text.xml10_content()),
            Event::GeneralRef(entity) if in_text => match entity.resolve_char_ref() {
                Ok(Some(c)) => out.push(c),
                _ => out.push_str(match &*entity.xml10_content() {
                    "amp" => "&",
                    "lt" => "<",
                    "gt" => ">",
                    "quot" => "\"",
                    "apos" => "'",
                    _ => "\u{fffd}",
                }),
            },
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::reader::ALONE;

    fn text(body: &str) -> String {
        let mut out = String::new();
        let xml = format!(
            "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><w:document>{body}</w:document>"
        );
        add_part(&mut out, xml.as_bytes()).unwrap();
        out
    }

    #[test]
    fn paragraphs_and_rows_are_lines() {
        let cell = |text: &str| format!("<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>");
        let row = |a: &str, b: &str| format!("<w:tr>{}{}</w:tr>", cell(a), cell(b));
        let table = format!("<w:tbl>{}{}</w:tbl>", row("No", "Price"), row("1", "2.50"));
        assert_eq!(text(&table), "No  Price\n1  2.50\n");
        let runs = "<w:p><w:r><w:t xml:space='preserve'>a &amp;&#x20AC; </w:t><w:tab/><w:t>b</w:t><w:delText>x</w:delText></w:r></w:p>";
        assert_eq!(text(runs), "a &€   b\n");
        assert_eq!(text("<w:p><w:t>&e;</w:t></w:p>"), "\u{fffd}\n");
        assert_eq!(
            text(
                "<mc:Choice><w:p><w:t>a</w:t></w:p></mc:Choice><mc:Fallback><w:p><w:t>a</w:t></w:p></mc:Fallback>"
            ),
            "a\n"
        );
    }

    #[test]
    fn parts_may_have_numbers_and_names_of_windows() {
        let part = |text: &str| format!("<w:document><w:p><w:t>{text}</w:t></w:p></w:document>");
        let file = |parts: &[(&str, &str)]| {
            let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
            for (name, text) in parts {
                archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
                archive.write_all(part(text).as_bytes()).unwrap();
            }
            archive.finish().unwrap().into_inner()
        };
        let bytes =
            file(&[("word/footer1.xml", "c"), ("word/document2.xml", "b"), ("word/header1.xml", "a")]);
        assert_eq!(Docx.read(&bytes, ALONE).unwrap()[0].text, "a\nb\nc\n");
        assert_eq!(Docx.read(&file(&[("word\\document.xml", "b")]), ALONE).unwrap()[0].text, "b\n");
        assert!(Docx.read(&file(&[("xl/workbook.xml", "b"), ("word/header1.xml", "a")]), ALONE).is_err());
    }

    #[test]
    fn files_that_are_none_are_errors() {
        for bytes in [&b""[..], b"PK\x03\x04", b"no archive at all"] {
            assert!(Docx.read(bytes, ALONE).is_err());
        }
    }
}
