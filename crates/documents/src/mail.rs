//! E-mails and mailboxes: headers as text, the body, and each attachment as a text of its own.
//!
//! # Cost
//! Decoding each part, and reading each attachment by its own reader.

use std::path::Path;

use ffwd_engine::text::decode;
use ffwd_engine::{Error, ErrorKind, Result};
use mail_parser::{Address, Message, MessageParser, MessagePart, MimeHeaders, PartType};

use crate::document::Text;
use crate::html;
use crate::reader::{DocumentKind, Nested, broken};

/// Largest number of attachments of an e-mail, and of e-mails in a mailbox.
const MAX_PARTS: usize = 100_000;

pub(crate) struct Mail;

impl DocumentKind for Mail {
    fn endings(&self) -> &'static [&'static str] {
        &["eml"]
    }

    fn read(&self, bytes: &[u8], nested: Nested<'_>) -> Result<Vec<Text>> {
        let message = MessageParser::default().parse(bytes).filter(|message| !message.headers().is_empty());
        message.map_or_else(|| Err(broken("e-mail", &"it has no headers")), |message| texts(&message, nested))
    }
}

pub(crate) struct Mailbox;

impl DocumentKind for Mailbox {
    fn endings(&self) -> &'static [&'static str] {
        &["mbox"]
    }

    fn read(&self, bytes: &[u8], nested: Nested<'_>) -> Result<Vec<Text>> {
        let (mut all, mut faults): (Vec<Text>, Vec<String>) = (Vec::new(), Vec::new());
        for (number, message) in (1..).zip(mails(bytes)?) {
            match Mail.read(&message, nested) {
                Ok(texts) => all.extend(texts.into_iter().map(|text| inside(&number.to_string(), text))),
                Err(error) => faults.push(format!("e-mail {number} is not read: {error}")),
            }
        }
        let Some(first) = all.first_mut() else { return Err(broken("mailbox", &"it has no e-mails")) };
        first.warnings.extend(faults);
        Ok(all)
    }
}

/// Returns the e-mails of a mailbox. Each begins with a line that begins with `From `, behind an empty line and
/// in front of a header: the same words in a text are no beginning.
fn mails(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let is_header = |line: &[u8]| {
        let name = line.iter().position(|byte| *byte == b':').unwrap_or(0);
        name > 0 && line[..name].iter().all(u8::is_ascii_graphic)
    };
    let is_empty = |line: &[u8]| line.trim_ascii().is_empty();
    let is_first = |line: &[u8]| line.starts_with(b"From ");
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').peekable();
    let (mut mails, mut before): (Vec<Vec<u8>>, &[u8]) = (Vec::new(), b"");
    while let Some(line) = lines.next() {
        let next = lines.peek().is_none_or(|next| is_header(next) || is_empty(next));
        if is_first(line) && next && is_empty(before) {
            check_count(mails.len())?;
            mails.push(Vec::new());
        } else if let Some(mail) = mails.last_mut() {
            let marks = line.iter().take_while(|byte| **byte == b'>').count();
            mail.extend(&line[usize::from(marks > 0 && is_first(&line[marks..]))..]);
        }
        before = line;
    }
    Ok(mails)
}

fn check_count(number: usize) -> Result<()> {
    match number > MAX_PARTS {
        true => Err(Error::new(ErrorKind::TooComplex, format!("it has more than {MAX_PARTS} parts"))),
        false => Ok(()),
    }
}

/// Returns a text with the path of the document around it.
fn inside(name: &str, mut text: Text) -> Text {
    text.name = if text.name.is_empty() { name.to_owned() } else { format!("{name}#{}", text.name) };
    text
}

/// Returns the text of an e-mail, and those of its attachments.
fn texts(message: &Message<'_>, nested: Nested<'_>) -> Result<Vec<Text>> {
    let mut own = Text { text: headers(message), ..Text::default() };
    for part in message.text_bodies() {
        own.text.push('\n');
        match &part.body {
            PartType::Html(page) => own.text.push_str(&html::text(page)?),
            PartType::Text(text) => {
                own.text.push_str(text.trim_end());
                own.text.push('\n');
            }
            _ => {}
        }
    }
    let mut attached = Vec::new();
    for (number, part) in (1..).zip(message.attachments()) {
        check_count(number)?;
        let name = part.attachment_name().map_or_else(|| format!("part {number}"), str::to_owned);
        match attachment(&name, part, nested) {
            Ok(Some(texts)) => attached.extend(texts.into_iter().map(|text| inside(&name, text))),
            Ok(None) => own.warnings.push(format!("the attachment `{name}` is of a kind that is not read")),
            Err(error) => own.warnings.push(format!("the attachment `{name}` is not read: {error}")),
        }
    }
    attached.insert(0, own);
    Ok(attached)
}

fn headers(message: &Message<'_>) -> String {
    let addresses = |address: Option<&Address<'_>>| -> Option<String> {
        let one = |one: &mail_parser::Addr<'_>| match (one.name(), one.address()) {
            (Some(name), Some(address)) => format!("{name} <{address}>"),
            (name, address) => name.or(address).unwrap_or_default().to_owned(),
        };
        Some(address?.iter().map(one).collect::<Vec<_>>().join(", "))
    };
    let all = [
        ("From", addresses(message.from())),
        ("To", addresses(message.to())),
        ("Cc", addresses(message.cc())),
        ("Date", message.header_raw("Date").map(|date| date.trim().to_owned())),
        ("Subject", message.subject().map(str::to_owned)),
    ];
    let present = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
    present.map(|(name, value)| format!("{name}: {value}\n")).collect()
}

/// Reads an attachment; `None` if it is of another kind.
fn attachment(name: &str, part: &MessagePart<'_>, nested: Nested<'_>) -> Result<Option<Vec<Text>>> {
    let nested = nested.deeper()?;
    let one = |text: String| Ok(Some(vec![Text { text, ..Text::default() }]));
    match &part.body {
        PartType::Message(message) => texts(message, nested).map(Some),
        PartType::Html(page) => one(html::text(page)?),
        PartType::Text(text) => match (nested.read)(Path::new(name), text.as_bytes(), nested)? {
            None => one(text.to_string()),
            texts => Ok(texts),
        },
        _ => match (nested.read)(Path::new(name), part.contents(), nested)? {
            None if is_plain(name) => one(decode(part.contents().to_vec())?),
            texts => Ok(texts),
        },
    }
}

/// Returns true if a name is that of a text that is taken as it is.
fn is_plain(name: &str) -> bool {
    let ending = Path::new(name).extension().unwrap_or_default().to_ascii_lowercase();
    ["txt", "md", "csv", "tsv", "json", "xml", "log"].iter().any(|plain| ending == *plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Web pages are the only documents inside.
    const NESTED: Nested<'static> = Nested {
        read: &|name, bytes, nested| {
            let is_page = name.extension().is_some_and(|ending| ending == "html");
            is_page.then(|| html::Html.read(bytes, nested)).transpose()
        },
        depth: 0,
    };
    const MAIL: &str = "From: =?utf-8?q?Zo=C3=AB?= <zoe@example.com>\r\nTo: Ann <ann@example.com>, bob@example.com\r\n\
        Date: Tue, 14 Apr 2026 10:00:00 +0200\r\nSubject: Order\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=b\r\n\r\n\
        --b\r\nContent-Type: multipart/alternative; boundary=c\r\n\r\n\
        --c\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
        Two lamps f=FCr me.\r\n--c\r\nContent-Type: text/html\r\n\r\n<p>Two lamps</p>\r\n--c--\r\n\
        --b\r\nContent-Type: text/html; name=page.html\r\nContent-Disposition: attachment; filename=page.html\r\n\r\n\
        <table><tr><td>1<td>2</table>\r\n\
        --b\r\nContent-Type: application/zip; name=x.zip\r\nContent-Disposition: attachment\r\n\r\nPK\r\n\
        --b\r\nContent-Type: message/rfc822\r\n\r\nFrom: c@example.com\r\nSubject: Old\r\n\r\nOld text\r\n--b--\r\n";

    #[test]
    fn mails_have_headers_a_body_and_attachments() {
        let texts = Mail.read(MAIL.as_bytes(), NESTED).unwrap();
        let names: Vec<&str> = texts.iter().map(|text| &*text.name).collect();
        assert_eq!(names, ["", "page.html", "part 3"]);
        assert_eq!(
            texts[0].text,
            "From: Zoë <zoe@example.com>\nTo: Ann <ann@example.com>, bob@example.com\n\
             Date: Tue, 14 Apr 2026 10:00:00 +0200\nSubject: Order\n\nTwo lamps für me.\n"
        );
        assert_eq!(texts[1].text, "1  2\n");
        assert_eq!(texts[2].text, "From: c@example.com\nSubject: Old\n\nOld text\n");
        assert!(texts[0].warnings[0].contains("`x.zip`"), "{:?}", texts[0].warnings);
    }

    #[test]
    fn mailboxes_are_mails_one_after_the_other() {
        let one = "Subject: A\n\nText\n";
        let all =
            format!("From a@b Tue Apr 14 10:00:00 2026\n{one}\nFrom a@b Tue Apr 14 10:00:00 2026\n{one}");
        let texts = Mailbox.read(all.as_bytes(), NESTED).unwrap();
        assert_eq!(texts.iter().map(|text| &*text.name).collect::<Vec<_>>(), ["1", "2"]);
        assert!(texts.iter().all(|text| text.text == "Subject: A\n\nText\n"), "{texts:?}");
        // One that is none is named, and the others are read.
        let texts =
            Mailbox.read(format!("{all}\nFrom a@b Tue Apr 14 10:00:00 2026\n\n").as_bytes(), NESTED).unwrap();
        assert!(texts.len() == 2 && texts[0].warnings[0].starts_with("e-mail 3 is not read"), "{texts:?}");
        let quoting = format!("{all}\n>From here on\nFrom: there\n\nFrom the start of a line\n>>From\n");
        let texts = Mailbox.read(quoting.as_bytes(), NESTED).unwrap();
        let end = "Text\n\nFrom here on\nFrom: there\n\nFrom the start of a line\n>>From\n";
        assert!(
            texts.len() == 2 && texts[1].text.ends_with(end) && texts[0].warnings.is_empty(),
            "{texts:?}"
        );
        assert!(Mail.read(b"", NESTED).is_err() && Mailbox.read(b"no mail", NESTED).is_err());
    }
}
