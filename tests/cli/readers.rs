//! Documents: `ffwd text` and `ffwd extract` on files of common programs, and on hostile ones.
//!
//! The files in `crates/documents/testdata` are made by `benches/documents/make.py` and LibreOffice.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ffwd::documents::{Text, read};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use serde_json::Value;

use crate::program::{Folder, ffwd, lines, succeeds, texts};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/documents/testdata");

fn data(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(DATA).join(name)).unwrap()
}

fn one(name: &str, bytes: &[u8]) -> Text {
    read(Path::new(name), bytes).unwrap().unwrap().remove(0)
}

/// One form as six programs write it: each row is a line, and each word stands where its page says.
#[test]
fn rows_are_lines_whoever_wrote_the_file() {
    for writer in ["chrome", "fpdf", "latex", "libreoffice", "reportlab", "weasyprint"] {
        let text = one("form.pdf", &data(&format!("form.{writer}.pdf")));
        for row in ["City: Oslo Phone: +47 22 33 44 55", "Contract: A-77 Ends: 31 December 2027"] {
            let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.text.lines().any(|line| plain(line).contains(row)), "{writer}: {}", text.text);
        }
        assert!(text.warnings.is_empty() && text.pages_without_text == 0, "{writer} {:?}", text.warnings);
        let word = |word: &str| text.words.iter().find(|own| &text.text[own.bytes.clone()] == word).unwrap();
        let (oslo, city, contract) = (word("Oslo"), word("City:"), word("Contract:"));
        assert!(oslo.page == 1 && city.area[2] < oslo.area[0] && (city.area[1] - oslo.area[1]).abs() < 2.0);
        assert!(city.area[1] < contract.area[1] && (city.area[0] - contract.area[0]).abs() < 2.0, "{writer}");
        // Words are all of the text but its white space.
        let words: String = text.words.iter().map(|word| &text.text[word.bytes.clone()]).collect();
        assert_eq!(words, text.text.split_whitespace().collect::<String>());
    }
}

#[test]
fn columns_are_read_one_after_the_other() {
    let text = one("article.pdf", &data("article.reportlab.pdf")).text;
    // Sentences go on where their column does.
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in joined.split_inclusive('.').map(str::trim).filter(|sentence| !sentence.is_empty()) {
        assert!(sentence.starts_with(|c: char| c.is_uppercase()), "{sentence:?} in {text}");
    }
}

#[test]
fn word_files_are_text() {
    let text = one("order.docx", &data("order.docx")).text;
    assert!(text.contains("Dear Zoë,\n") && text.contains("No  Price\n1  12.50\n"), "{text}");
}

/// A PDF with these objects; the first one is its catalogue.
fn pdf(objects: &[String]) -> Vec<u8> {
    let mut out = String::from("%PDF-1.4\n");
    let mut places = Vec::new();
    for (number, object) in (1..).zip(objects) {
        places.push(out.len());
        write!(out, "{number} 0 obj\n{object}\nendobj\n").unwrap();
    }
    let (start, count) = (out.len(), objects.len() + 1);
    write!(out, "xref\n0 {count}\n0000000000 65535 f \n").unwrap();
    places.iter().for_each(|place| writeln!(out, "{place:010} 00000 n ").unwrap());
    write!(out, "trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n").unwrap();
    out.into_bytes()
}

fn stream(dictionary: &str, content: &str) -> String {
    format!("<< {dictionary} /Length {} >>\nstream\n{content}\nendstream", content.len())
}

/// A PDF of one page with this content, attributes and further objects from number 5 on.
fn page(content: &str, attributes: &str, more: &[String]) -> Vec<u8> {
    let font = "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>";
    let first = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Contents 4 0 R {attributes} \
             /Resources << {font} /XObject << /X 5 0 R >> >> >>"
        ),
        stream("", content),
    ];
    pdf(&[&first, more].concat())
}

const HELLO: &str = "BT /F1 10 Tf 20 50 Td (Hello world) Tj ET";

#[test]
fn pages_may_be_turned_and_words_may_be_drawn_in_parts() {
    assert_eq!(one("a.pdf", &page(HELLO, "", &[])).text, "Hello world\n\u{c}");
    let turned = "q 0 1 -1 0 60 20 cm BT /F1 10 Tf (Hello world) Tj ET Q";
    let turned = one("a.pdf", &page(turned, "/Rotate 90", &[]));
    assert_eq!(turned.text, "Hello world\n\u{c}");
    let [left, top, right, bottom] = turned.words[0].area;
    assert!(right - left > bottom - top && right < 100.0, "{:?}", turned.words[0]);
    let kerned = "BT /F1 10 Tf 20 50 Td [(To) 80 (tal) -400 (12) 10 (.50)] TJ ET";
    assert_eq!(one("a.pdf", &page(kerned, "", &[])).text, "Total 12.50\n\u{c}");
    // What other objects say of their filters is nothing about the content behind them.
    let mut more = vec!["<< /Flags 32 /Filter /FlateDecode >>".to_owned(); 5];
    more.push(stream("", "x"));
    assert_eq!(one("a.pdf", &page(HELLO, "", &more)).text, "Hello world\n\u{c}");
    // A file that begins like a PDF is one.
    assert_eq!(one("scan.txt", &page(HELLO, "", &[])).text, "Hello world\n\u{c}");
}

/// What other readers stumble over, after public reports: each of these files says the same.
#[test]
fn files_that_break_other_readers_are_read() {
    let plain = String::from_utf8(page(HELLO, "", &[])).unwrap();
    let content = format!("{HELLO}\n{}", "% ".repeat(999));
    let content = miniz_oxide::deflate::compress_to_vec_zlib(content.as_bytes(), 6);
    let packed = |bytes: &[u8]| {
        let (before, after) = plain.split_once(HELLO).unwrap();
        let length = format!("/Length {}", HELLO.len());
        let before = before.replace(&length, &format!("/Filter /FlateDecode /Length {}", bytes.len()));
        [before.as_bytes(), bytes, after.as_bytes()].concat()
    };
    let more = [stream("", "50 Td (Hello world) Tj ET")];
    let split = String::from_utf8(page("BT /F1 10 Tf 20", "", &more)).unwrap();
    let split = split.replace("/Contents 4 0 R", "/Contents [4 0 R 5 0 R]");
    let inherited = plain.replace("/Count 1", "/Count 1 /MediaBox [0 0 200 100]");
    let map =
        "1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfrange <00> <FFFFFFFF> <0000> endbfrange";
    let font = "/BaseFont /Helvetica";
    let mapped = page(HELLO, "", &[stream("", map)]);
    let mapped = String::from_utf8(mapped).unwrap().replace(font, &format!("{font} /ToUnicode 5 0 R"));
    let files: [(&str, Vec<u8>); 10] = [
        ("a header of HTTP", [b"HTTP/1.1 200 OK\r\n\r\n", plain.as_bytes()].concat()),
        ("a wrong length", plain.replace(&format!("/Length {}", HELLO.len()), "/Length 0").into()),
        ("no table of objects", plain[..plain.find("xref\n").unwrap()].into()),
        ("an image without end", page(&format!("{HELLO} BI /W 1 /H 1 /BPC 8 /CS /G ID xxxx"), "", &[])),
        ("content in parts", split.into()),
        ("content that is cut", packed(&content[..content.len() - 8])),
        ("a wrong sum", packed(&[&content[..content.len() - 4], b"abcd"].concat())),
        ("what the tree says", inherited.replace("/MediaBox [0 0 200 100] /Contents", "/Contents").into()),
        ("a wrong number of pages", plain.replace("/Count 1", "/Count 99").into()),
        ("a range without bound", mapped.into()),
    ];
    for (what, bytes) in files {
        assert_eq!(one("a.pdf", &bytes).text.trim(), "Hello world", "{what}");
    }
}

fn image_page() -> Vec<u8> {
    let image =
        "/Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8";
    page("q 100 0 0 100 0 0 cm /X Do Q", "", &[stream(image, "x")])
}

#[test]
fn pages_without_text_are_never_empty_texts() {
    let folder = Folder::new();
    std::fs::write(folder.path("scan.pdf"), image_page()).unwrap();
    std::fs::write(folder.path("page.pdf"), page(HELLO, "", &[])).unwrap();
    let (code, out, err) = folder.extract("", &["--include", "*.pdf"]);
    assert!(code == 1 && err.contains("scan.pdf: page 1 is an image"), "{err}");
    assert!(err.contains("1 page has no text that can be read"), "{err}");
    let lines = lines(&out);
    assert!(
        lines[0]["record"]["ok"].is_boolean() && lines[0]["source"].as_str().unwrap().ends_with("page.pdf")
    );
    assert!(lines[1]["error"].as_str().unwrap().contains("no text in it"), "{out}");
}

#[test]
fn spans_have_pages_and_boxes() {
    let folder = Folder::new();
    std::fs::write(folder.path("a.pdf"), page(HELLO, "", &[])).unwrap();
    let schema = r#"{"properties": {"name": {"type": "string", "x-verbatim": true, "minLength": 3}}, "required": ["name"]}"#;
    folder.write("v.json", schema);
    for more in [&[][..], &["--chunk-tokens", "16"]] {
        let (file, schema) = (folder.path("a.pdf"), folder.path("v.json"));
        let args = [&["extract", &file, "-s", &schema, "--spans"], more].concat();
        let line: Value = serde_json::from_str(&succeeds(&args).0).unwrap();
        let own = if more.is_empty() { &line } else { &line["records"][0] };
        let span = &own["spans"]["/name"];
        let span = if span["occurrences"].is_null() { span } else { &span["occurrences"][0] };
        assert!(span["page"] == 1 && span["box"].as_array().unwrap().len() == 4, "{line}");
        assert!(
            span["box"][0].as_f64().unwrap() >= 20.0 && span["box"][3].as_f64().unwrap() < 60.0,
            "{line}"
        );
    }
    let report = folder.path("r.html");
    succeeds(&[
        "extract",
        &folder.path("a.pdf"),
        "-s",
        &folder.path("v.json"),
        "--html",
        &report,
        "--verbatim",
    ]);
    assert!(folder.read("r.html").contains("\"page\":1"));
}

#[test]
fn attachments_are_texts_of_their_own() {
    let folder = Folder::new();
    let pdf = String::from_utf8(page(HELLO, "", &[])).unwrap();
    let mail = format!(
        "From: a@example.com\nSubject: Two files\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n\
         --b\nContent-Type: text/plain\n\nSee below\n--b\nContent-Type: application/pdf; name=inv.pdf\n\
         Content-Disposition: attachment\n\n{pdf}\n--b--\n"
    );
    folder.write("m.eml", &mail);
    let (out, _) = succeeds(&["text", &folder.path("m.eml"), "--json"]);
    let found = lines(&out);
    assert!(found[0]["text"].as_str().unwrap().ends_with("Subject: Two files\n\nSee below\n"), "{out}");
    assert!(found[1]["source"].as_str().unwrap().ends_with("m.eml#inv.pdf"));
    assert!(found[1]["text"] == "Hello world\n\u{c}" && found[1]["words"][0][2] == 1, "{out}");
    let (code, out, err) = folder.extract("m.eml", &[]);
    assert!(code == 0 && lines(&out).len() == 2, "{err}");
}

#[test]
fn what_cannot_be_read_is_an_error_of_its_file() {
    let folder = Folder::new();
    std::fs::copy(Path::new(DATA).join("encrypted.pdf"), folder.path("encrypted.pdf")).unwrap();
    folder.write("broken.pdf", "%PDF-1.7\nnothing");
    folder.write("broken.docx", "PK");
    folder.write("good.txt", "Text");
    let output = ffwd(&["text", &folder.0.path().display().to_string()]);
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), out.contains("Text")), (Some(1), true), "{err}");
    for part in ["encrypted.pdf", "qpdf --decrypt", "broken.pdf", "broken.docx"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    // A password that only forbids changes hides nothing.
    assert!(one("a.pdf", &data("owner_password.pdf")).text.contains("Oslo"));
}

/// Files that grow, repeat themselves or nest without bound.
fn hostile() -> Vec<(&'static str, PathBuf, Vec<u8>)> {
    let form = |next: usize| {
        let resources = format!("/Resources << /XObject << /X {next} 0 R >> >>");
        let content = "/X Do /X Do /X Do";
        stream(&format!("/Type /XObject /Subtype /Form /BBox [0 0 9 9] {resources}"), content)
    };
    let forms: Vec<String> = (0..40).map(|i| form(6 + i)).collect();
    let nested = "q ".repeat(500_000) + HELLO;
    let arrays = "[".repeat(500_000);
    let kids = "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>".to_owned();
    let many: Vec<String> = (0..100_000).map(|_| "<< >>".to_owned()).collect();
    let cells = "<table><tr><td>".repeat(100_000);
    let head = "Content-Type: multipart/mixed; boundary=b\n\n";
    let parts = format!("Subject: x\n{head}{}", format!("--b\n{head}").repeat(10_000));
    vec![
        ("forms in forms", "a.pdf".into(), page("/X Do", "", &forms)),
        ("states in states", "a.pdf".into(), page(&nested, "", &[])),
        ("arrays in arrays", "a.pdf".into(), page("", &format!("/A {arrays}"), &[])),
        ("pages in themselves", "a.pdf".into(), pdf(&["<< /Type /Catalog /Pages 2 0 R >>".to_owned(), kids])),
        ("many objects", "a.pdf".into(), page(HELLO, "", &many)),
        ("elements in elements", "a.html".into(), cells.into_bytes()),
        ("parts in parts", "a.eml".into(), parts.into_bytes()),
        ("a bomb", "a.pdf".into(), bomb()),
    ]
}

/// A page whose content is packed twice, and unpacks to a hundred thousand times its length.
fn bomb() -> Vec<u8> {
    let once = miniz_oxide::deflate::compress_to_vec_zlib(&vec![b' '; 300 << 20], 1);
    let twice = miniz_oxide::deflate::compress_to_vec_zlib(&once, 9);
    let text = String::from_utf8(page("CONTENT", "", &[])).unwrap();
    let (before, after) = text.split_once("CONTENT").unwrap();
    let filters = format!("/Filter [/FlateDecode /FlateDecode] /Length {}", twice.len());
    [before.replace("/Length 7", &filters).as_bytes(), &twice, after.as_bytes()].concat()
}

/// Each ends in an error or a text.
#[test]
fn hostile_files_end() {
    for (what, name, bytes) in hostile() {
        let start = Instant::now();
        let read = read(&name, &bytes);
        let end =
            read.map_or_else(|error| error.to_string(), |texts| format!("{} texts", texts.unwrap().len()));
        println!("{what}: {:.2} s, {end}", start.elapsed().as_secs_f64());
    }
    let refused = read(Path::new("a.pdf"), &bomb()).unwrap_err().to_string();
    assert!(refused.contains("unpacks to more than"), "{refused}");
}

/// Random changes of whole files: an error or a text comes back, and nothing panics.
#[test]
fn changed_files_end() {
    let paths = std::fs::read_dir(DATA).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<(PathBuf, Vec<u8>)> =
        paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    files.sort();
    let mut ends = [0; 2];
    for case in 0..env::oracle_cases(300) {
        let mut random = Random::new(env::oracle_seed() + case);
        let (name, bytes) = random.pick(&files);
        let mut bytes = bytes.clone();
        for _ in 0..1 + random.below(20) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.truncate(at.max(8)),
                2 => drop(bytes.splice(at..at, b"[<< 99999999 0 R /Kids (".iter().copied())),
                _ => {
                    let to = (at + random.below(40)).min(bytes.len());
                    bytes.drain(at..to);
                }
            }
            if bytes.is_empty() {
                bytes.push(b'%');
            }
        }
        ends[usize::from(read(name, &bytes).is_ok())] += 1;
    }
    println!("{} errors, {} texts", ends[0], ends[1]);
    assert!(ends.iter().all(|count| *count > 10), "{ends:?}");
}
