//! PDF: the glyphs of each page with their places, as a program that draws it meets them.
//!
//! # Cost
//! That of interpreting each page without drawing. Content that draws without end is stopped, and packed parts
//! that would unpack to too much are found before.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ffwd_engine::{Error, ErrorKind, Result};
use hayro_interpret::font::{Glyph as Drawn, GlyphRun};
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::kurbo::{Affine, BezPath, Point, Rect};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
    InterpreterSettings, SoftMask, TransformExt, interpret_page,
};
use hayro_syntax::page::Page;
use hayro_syntax::{LoadPdfError, Pdf as Parsed};
use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_zlib_with_limit};

use crate::document::{MAX_UNPACKED, Text};
use crate::layout::{Glyph, add_page};
use crate::reader::{DocumentKind, Nested, broken};

/// Largest number of operations that draw, on a page and on all of them.
const MAX_STEPS: [usize; 2] = [2_000_000, 50_000_000];
/// Largest number of pages.
const MAX_PAGES: usize = 20_000;
/// Length of packed data below which what it unpacks to is no danger: they grow a thousandfold at most.
const SMALL: usize = 64 << 10;
/// Bytes in front of a packed part in which its filters are named.
const HEAD: usize = 4096;
/// The filter that unpacks to much more than its data.
const PACKED: &[u8] = b"/FlateDecode";
/// Share of characters without a meaning above which there is a warning.
const UNKNOWN: f64 = 0.1;

pub(crate) struct Pdf;

impl DocumentKind for Pdf {
    fn endings(&self) -> &'static [&'static str] {
        &["pdf"]
    }

    fn is_begin(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(b"%PDF-")
    }

    fn read(&self, bytes: &[u8], _: Nested<'_>) -> Result<Vec<Text>> {
        // A fault of the interpreter is one of this file.
        let read = catch_unwind(AssertUnwindSafe(|| read(bytes)));
        read.unwrap_or_else(|cause| match cause.downcast_ref::<Stopped>() {
            Some(Stopped) => {
                Err(Error::new(ErrorKind::TooComplex, "its pages draw without end, or far too much"))
            }
            None => Err(broken("PDF", &"its content cannot be interpreted")),
        })
    }
}

/// Ends the interpretation of a page.
struct Stopped;

fn read(bytes: &[u8]) -> Result<Vec<Text>> {
    check_sizes(bytes)?;
    let parsed = Parsed::new(bytes.to_vec()).map_err(|error| match error {
        LoadPdfError::Decryption(_) => Error::new(ErrorKind::Unsupported, "this PDF is encrypted")
            .hint("remove its password, for example with `qpdf --decrypt`"),
        LoadPdfError::Invalid => broken("PDF", &"its structure is broken"),
    })?;
    let pages = parsed.pages();
    if pages.len() > MAX_PAGES {
        let message = format!("it has {} pages; at most {MAX_PAGES} are read", pages.len());
        return Err(Error::new(ErrorKind::TooComplex, message));
    }
    let cache = InterpreterCache::new();
    let mut text = Text::default();
    let mut steps = 0;
    for (number, page) in (1..).zip(pages.iter()) {
        let mut seen = draw(&parsed, page, &cache, MAX_STEPS[0].min(MAX_STEPS[1] - steps));
        steps += seen.steps;
        let all = seen.glyphs.len() + seen.unknown;
        if seen.unknown as f64 > UNKNOWN * all as f64 {
            let unknown = seen.unknown;
            text.warnings.push(format!("page {number}: {unknown} of {all} characters have no known meaning"));
        } else if all == 0 && seen.images > 0 {
            text.warnings.push(format!("page {number} is an image; its text must be recognised first"));
        }
        text.pages_without_text +=
            usize::from(seen.glyphs.is_empty() && (seen.images > 0 || seen.unknown > 0));
        add_page(&mut text, number, &mut seen.glyphs);
        text.end_page();
    }
    Ok(vec![text])
}

/// Checks what packed parts unpack to, before anything is parsed.
fn check_sizes(bytes: &[u8]) -> Result<()> {
    let find = |from: usize, word: &[u8]| {
        bytes[from..].windows(word.len()).position(|part| part == word).map_or(bytes.len(), |at| from + at)
    };
    let mut at = 0;
    loop {
        let begin = find(at, b"stream");
        if begin == bytes.len() {
            return Ok(());
        }
        // The filters stand in the dictionary between the number of the object and its content.
        let head = &bytes[at.max(begin.saturating_sub(HEAD))..begin];
        let own = head.windows(3).rposition(|word| word == b"obj").map_or(head, |at| &head[at..]);
        let packed = own.windows(PACKED.len()).filter(|word| *word == PACKED).count();
        let data = begin + b"stream".len();
        let data = data + bytes[data..].iter().take_while(|byte| b"\r\n".contains(byte)).count();
        let end = find(data, b"endstream");
        if packed > 2 || packed > 0 && is_too_large(&bytes[data..end], packed) {
            let message = format!("a part of it unpacks to more than {} MiB", MAX_UNPACKED >> 20);
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        at = (end + b"endstream".len()).min(bytes.len());
    }
}

fn is_too_large(packed: &[u8], levels: usize) -> bool {
    if packed.len() < SMALL && levels == 1 {
        return false;
    }
    match decompress_to_vec_zlib_with_limit(packed, MAX_UNPACKED) {
        Ok(once) => levels > 1 && is_too_large(&once, levels - 1),
        Err(error) => error.status == TINFLStatus::HasMoreOutput,
    }
}

fn draw<'a>(parsed: &'a Parsed, page: &Page<'a>, cache: &InterpreterCache<'a>, most: usize) -> PageDevice {
    let (width, height) = page.render_dimensions();
    let area = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
    let transform = page.initial_transform(true).to_kurbo();
    let mut context = Context::new(transform, area, cache, parsed.xref(), InterpreterSettings::default());
    let mut seen = PageDevice {
        glyphs: Vec::new(),
        unknown: 0,
        images: 0,
        steps: 0,
        most,
        area: area.inflate(1.0, 1.0),
    };
    interpret_page(page, &mut context, &mut seen);
    seen
}

/// What a page shows.
struct PageDevice {
    glyphs: Vec<Glyph>,
    /// Number of glyphs of which no character is known.
    unknown: usize,
    images: usize,
    steps: usize,
    /// Largest number of steps.
    most: usize,
    area: Rect,
}

impl PageDevice {
    fn step(&mut self, count: usize) {
        self.steps += count;
        if self.steps > self.most {
            resume_unwind(Box::new(Stopped));
        }
    }

    fn glyph(&mut self, glyph: &Drawn<'_>, transform: Affine) {
        let advance = match glyph {
            Drawn::Outline(outline) => outline.advance_width(),
            Drawn::Type3(drawing) => drawing.advance_width(),
        };
        let start = transform * Point::ZERO;
        let along = transform * Point::new(f64::from(advance.unwrap_or(500.0)), 0.0) - start;
        let size = (transform * Point::new(0.0, 1000.0) - start).hypot();
        if !self.area.contains(start) || !size.is_finite() || size < 0.1 {
            return;
        }
        let code = || match glyph {
            // Fonts of drawings, as TeX embeds them, have names of their own for their glyphs.
            // Their codes are those of Latin letters.
            Drawn::Type3(drawing) => {
                let code = u8::try_from(drawing.char_code()).ok();
                code.filter(|byte| byte.is_ascii_graphic() || *byte > 0xa0)
            }
            Drawn::Outline(_) => None,
        };
        let text = match glyph.as_unicode() {
            Some(BfString::Char(c)) => c.to_string(),
            Some(BfString::String(text)) => text,
            None => match code() {
                Some(byte) => char::from(byte).to_string(),
                None => {
                    self.unknown += 1;
                    return;
                }
            },
        };
        self.glyphs.push(Glyph::new(text, (start.x, start.y), (along.x, along.y), size));
    }
}

impl Device<'_> for PageDevice {
    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'_>, _: &DrawMode) {
        self.step(1);
    }

    fn push_clip_path(&mut self, _: &ClipPath) {
        self.step(1);
    }

    fn push_clip_rect(&mut self, _: &Rect) {
        self.step(1);
    }

    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'_>>, _: BlendMode) {
        self.step(1);
    }

    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, '_>, props: DrawProps<'_>, _: &DrawMode) {
        self.step(run.glyphs().len());
        for glyph in run.glyphs() {
            self.glyph(glyph, props.transform * glyph.transform());
        }
    }

    fn draw_image(&mut self, _: Image<'_, '_>, _: ImageDrawProps<'_>) {
        self.step(1);
        self.images += 1;
    }

    fn draw_rect(&mut self, _: &Rect, _: DrawProps<'_>, _: &DrawMode) {
        self.step(1);
    }

    fn pop_clip(&mut self) {}

    fn pop_transparency_group(&mut self) {}
}
