//! Words, lines and columns of a page, made of its glyphs.
//!
//! Glyphs come in the order in which a program drew them, which may be any. Those on one height are a line,
//! and gaps in it separate words. Lines are read from the top to the bottom, so the cells of a table's row
//! stay together. Only where two blocks of running text stand side by side, without a line across the gap
//! between them, one is read after the other.
//!
//! # Cost
//! Sorting the glyphs, and a pass over the words for each place where columns may part.
//!
//! # Alternatives considered
//! The order of drawing was rejected: many programs draw tables by columns, or a page from its end.

use unicode_normalization_alignments::UnicodeNormalization;

use crate::document::Text;

/// Gap between two words, in parts of the font size.
const WORD_GAP: f64 = 0.15;
/// The same behind a blank that was drawn.
const BLANK_GAP: f64 = 0.03;
/// Gap between two cells or columns.
const WIDE_GAP: f64 = 1.0;
/// Distance of two glyphs of a line from one height.
const SAME_LINE: f64 = 0.4;
/// Distance of two lines above which there is an empty line between them.
const PARAGRAPH: f64 = 1.9;
/// Distance at which a glyph that is drawn twice is one, as in bold made of plain letters.
const TWICE: f64 = 0.1;
/// Width that is clear on both sides of the place between two columns.
const CLEAR: f64 = 0.2;
/// Smallest number of lines of running text in a column.
const COLUMN_LINES: usize = 5;
/// Smallest share of the width of a column that words fill on average.
const COLUMN_FILL: f64 = 0.6;
/// Smallest average number of words in a line of running text.
const COLUMN_WORDS: f64 = 3.5;
/// Parts into which the width of a page is divided to find columns.
const GUTTERS: usize = 300;
/// Levels of columns in columns.
const MAX_DEPTH: usize = 4;

/// A glyph with its characters. Positions along and across its line of text are in points.
#[derive(Debug, Clone)]
pub(crate) struct Glyph {
    text: String,
    /// Direction of the text in steps of five degrees; 0 is to the right.
    angle: i32,
    start: f64,
    end: f64,
    height: f64,
    size: f64,
    area: [f32; 4],
}

impl Glyph {
    /// Creates a glyph that begins at a point of the page and takes the way `along` on its line.
    pub(crate) fn new(text: String, at: (f64, f64), along: (f64, f64), size: f64) -> Glyph {
        let turn = along.1.atan2(along.0);
        let angle = (turn.to_degrees() / 5.0).round() as i32 % 72;
        let length = along.0.hypot(along.1);
        let (sin, cos) = if angle == 0 { (0.0, 1.0) } else { turn.sin_cos() };
        // Into the frame of a text that runs to the right.
        let start = at.0 * cos + at.1 * sin;
        let height = at.1 * cos - at.0 * sin;
        let corner = |x: f64, y: f64| (x * cos - y * sin, x * sin + y * cos);
        let (top, bottom) = (height - 0.8 * size, height + 0.2 * size);
        let corners = [(start, top), (start, bottom), (start + length, top), (start + length, bottom)];
        let corners = corners.map(|(x, y)| corner(x, y));
        let least = |pick: fn(&(f64, f64)) -> f64| corners.iter().map(pick).fold(f64::MAX, f64::min) as f32;
        let most = |pick: fn(&(f64, f64)) -> f64| corners.iter().map(pick).fold(f64::MIN, f64::max) as f32;
        let area = [least(|c| c.0), least(|c| c.1), most(|c| c.0), most(|c| c.1)];
        Glyph { text, angle, start, end: start + length, height, size, area }
    }

    fn is_blank(&self) -> bool {
        self.text.chars().all(|c| c.is_whitespace() || c.is_control())
    }
}

/// A word in a line.
#[derive(Debug, Clone)]
struct Word {
    text: String,
    start: f64,
    end: f64,
    height: f64,
    size: f64,
    area: [f32; 4],
    /// Where in the text the letters begin that are written to the left, if it ends with such.
    leftward: Option<usize>,
}

impl Word {
    /// Adds the characters of a glyph that stands to the right of all others.
    fn push(&mut self, glyph: &str) {
        let mut own = String::new();
        push_plain(&mut own, glyph);
        let is_mark = |text: &str| !text.chars().any(char::is_alphanumeric);
        if own.chars().any(is_leftward) {
            // Marks to the left of the first letter come behind it.
            let begin = if is_mark(&self.text) { 0 } else { self.text.len() };
            self.leftward.get_or_insert(begin);
        } else if !is_mark(&own) {
            self.leftward = None;
        }
        self.text.insert_str(self.leftward.unwrap_or(self.text.len()), &own);
    }

    fn runs_leftward(&self) -> bool {
        self.text.chars().any(is_leftward)
    }

    /// Returns the text as it is written in a line that is read from the right or the left.
    fn written(&self, from_the_right: bool) -> String {
        if self.runs_leftward() {
            // Some programs say which brackets are seen, others which are meant.
            let are_seen = self.text.starts_with([')', ']']) || self.text.ends_with(['(', '[']);
            let turned = |c: char| ")(][".chars().zip("()[]".chars()).find(|pair| pair.0 == c);
            return self
                .text
                .chars()
                .map(|c| turned(c).filter(|_| are_seen).map_or(c, |pair| pair.1))
                .collect();
        }
        let rest = self.text.trim_start_matches([',', '.', ';', ':', '،', '؛']);
        let marks = &self.text[..self.text.len() - rest.len()];
        if from_the_right { format!("{rest}{marks}") } else { self.text.clone() }
    }
}

/// Returns true for letters that are written to the left: those of Hebrew, Arabic and their neighbours.
fn is_leftward(c: char) -> bool {
    matches!(c, '\u{591}'..='\u{8ff}') && c.is_alphabetic()
}

type Line = Vec<Word>;

/// Adds the text of a page.
pub(crate) fn add_page(out: &mut Text, page: u32, glyphs: &mut Vec<Glyph>) {
    let mut angles: Vec<i32> = glyphs.iter().map(|glyph| glyph.angle).collect();
    angles.sort_unstable_by_key(|angle| (angle.abs(), *angle));
    angles.dedup();
    for angle in angles {
        let lines = lines(glyphs.extract_if(.., |glyph| glyph.angle == angle).collect());
        write(out, page, lines, 0);
    }
}

/// Returns the lines of glyphs that run in one direction, from the top.
fn lines(glyphs: Vec<Glyph>) -> Vec<Line> {
    // A blank counts for the glyph that was drawn behind it.
    let mut blank = false;
    let mut marked: Vec<(Glyph, bool)> = Vec::with_capacity(glyphs.len());
    for glyph in glyphs {
        match glyph.is_blank() {
            true => blank = true,
            false => marked.push((glyph, std::mem::take(&mut blank))),
        }
    }
    marked.sort_by(|a, b| a.0.height.total_cmp(&b.0.height));
    let mut rows: Vec<Vec<(Glyph, bool)>> = Vec::new();
    for marked in marked {
        let on = |row: &&mut Vec<(Glyph, bool)>| {
            let (first, own) = (&row[0].0, &marked.0);
            let (small, large) = (first.size.min(own.size), first.size.max(own.size));
            let size = if large > 2.0 * small { small } else { large };
            own.height - first.height < SAME_LINE * size
        };
        match rows.last_mut().filter(on) {
            Some(row) => row.push(marked),
            None => rows.push(vec![marked]),
        }
    }
    rows.into_iter().map(words).collect()
}

/// Returns the words of a line.
fn words(mut row: Vec<(Glyph, bool)>) -> Line {
    row.sort_by(|a, b| a.0.start.total_cmp(&b.0.start));
    let mut line: Line = Vec::new();
    let mut last: [(f64, String); 3] = Default::default();
    for (glyph, blank) in row {
        if last.iter().any(|(at, text)| *text == glyph.text && glyph.start - at < TWICE * glyph.size) {
            continue;
        }
        last.rotate_right(1);
        last[0] = (glyph.start, glyph.text.clone());
        match line.last_mut() {
            Some(word) if !parts(word, &glyph, blank) => {
                word.end = word.end.max(glyph.end);
                word.size = word.size.max(glyph.size);
                for (edge, own) in word.area.iter_mut().zip(glyph.area).take(2) {
                    *edge = edge.min(own);
                }
                for (edge, own) in word.area.iter_mut().zip(glyph.area).skip(2) {
                    *edge = edge.max(own);
                }
                word.push(&glyph.text);
            }
            _ => {
                let Glyph { start, end, height, size, area, .. } = glyph;
                let mut word = Word { text: String::new(), start, end, height, size, area, leftward: None };
                word.push(&glyph.text);
                line.push(word);
            }
        }
    }
    line.retain(|word| !word.text.is_empty());
    line
}

fn parts(word: &Word, glyph: &Glyph, blank: bool) -> bool {
    let gap = (glyph.start - word.end) / word.size.min(glyph.size);
    gap > if blank { BLANK_GAP } else { WORD_GAP }
}

/// Adds characters, ligatures and forms of letters as their letters.
fn push_plain(text: &mut String, glyph: &str) {
    for c in glyph.chars() {
        match c {
            '\u{fb00}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' => {
                text.extend(std::iter::once(c).nfkc().map(|(c, _)| c).filter(|c| !c.is_whitespace()));
            }
            '\u{ad}' => text.push('-'),
            c if c.is_control() || c.is_whitespace() => {}
            c => text.push(c),
        }
    }
}

/// Writes lines, the columns of running text one after the other.
fn write(out: &mut Text, page: u32, lines: Vec<Line>, depth: usize) {
    let Some((rows, gutter)) = columns(&lines).filter(|_| depth < MAX_DEPTH) else {
        return write_lines(out, page, &lines);
    };
    let mut lines = lines;
    let below = lines.split_off(rows.end);
    let both = lines.split_off(rows.start);
    write(out, page, lines, depth + 1);
    let side = |left: bool| -> Vec<Line> {
        let own = |line: &Line| -> Line {
            line.iter().filter(|word| (word.start < gutter) == left).cloned().collect()
        };
        both.iter().map(own).filter(|line| !line.is_empty()).collect()
    };
    write(out, page, side(true), depth + 1);
    write(out, page, side(false), depth + 1);
    write(out, page, below, depth + 1);
}

fn write_lines(out: &mut Text, page: u32, lines: &[Line]) {
    let mut above: Option<(f64, f64)> = None;
    for line in lines {
        let (height, size) = (line[0].height, line[0].size);
        if above.is_some_and(|(other, large)| height - other > PARAGRAPH * size.max(large)) {
            out.text.push('\n');
        }
        above = Some((height, size));
        let (cells, from_the_right) = cells(line);
        for (i, cell) in cells.into_iter().enumerate() {
            out.text.push_str(if i > 0 { "  " } else { "" });
            for (i, word) in cell.into_iter().enumerate() {
                out.text.push_str(if i > 0 { " " } else { "" });
                out.push(&word.written(from_the_right), page, word.area);
            }
        }
        out.text.push('\n');
    }
}

/// Returns the cells of a line, and their words, in the order in which they are read: from the right if most
/// words are, and whether they are. Words of the other direction keep their order among themselves.
fn cells(line: &Line) -> (Vec<Vec<&Word>>, bool) {
    let leftward = line.iter().filter(|word| word.runs_leftward()).count();
    let letters = line.iter().filter(|word| word.text.chars().any(char::is_alphabetic)).count();
    let from_the_right = leftward > 0 && 2 * leftward >= letters;
    let cells = line.chunk_by(|word, next| next.start - word.end <= WIDE_GAP * next.size);
    let mut cells: Vec<Vec<&Word>> = cells.map(|cell| cell.iter().collect()).collect();
    if from_the_right {
        cells.reverse();
    }
    for cell in cells.iter_mut().filter(|_| leftward > 0) {
        if from_the_right {
            cell.reverse();
        }
        let runs = cell.chunk_by_mut(|word, next| word.runs_leftward() == next.runs_leftward());
        runs.filter(|run| run[0].runs_leftward() != from_the_right).for_each(<[&Word]>::reverse);
    }
    (cells, from_the_right)
}

/// Returns the largest run of lines with two columns of running text, and the place between these.
fn columns(lines: &[Line]) -> Option<(std::ops::Range<usize>, f64)> {
    let words = || lines.iter().flatten();
    let left = words().map(|word| word.start).fold(f64::MAX, f64::min);
    let right = words().map(|word| word.end).fold(f64::MIN, f64::max);
    let mut best: Option<(std::ops::Range<usize>, f64)> = None;
    for step in GUTTERS / 5..GUTTERS * 4 / 5 {
        let at = left + (right - left) * step as f64 / GUTTERS as f64;
        let crosses = |line: &Line| {
            line.iter().any(|word| word.start < at + CLEAR * word.size && word.end > at - CLEAR * word.size)
        };
        let mut from = 0;
        while from < lines.len() {
            let length = lines[from..].iter().take_while(|line| !crosses(line)).count();
            let rows = from..from + length;
            let longer = best.as_ref().is_none_or(|best| rows.len() > best.0.len());
            if longer && let Some(rows) = running_text(lines, rows, at) {
                best = Some((rows, at));
            }
            from += length + 1;
        }
    }
    best
}

/// Returns the lines from the first to the last with text on both sides, if both sides are running text.
fn running_text(
    lines: &[Line],
    mut rows: std::ops::Range<usize>,
    gutter: f64,
) -> Option<std::ops::Range<usize>> {
    let sides = |line: &Line| {
        let left = line.iter().filter(|word| word.start < gutter).count();
        [left, line.len() - left]
    };
    // Lines on one side may belong to a column whose lines stand at other heights, but not at the ends.
    let mixed = |rows: &[Line]| {
        rows.iter().take(2).fold([0; 2], |all, line| {
            let own = sides(line);
            [all[0] + own[0], all[1] + own[1]]
        })
    };
    while rows.len() >= COLUMN_LINES && mixed(&lines[rows.clone()]).contains(&0) {
        rows.start += 1;
    }
    let runs = |left: bool| {
        let own: Vec<Vec<&Word>> = lines[rows.clone()]
            .iter()
            .map(|line| line.iter().filter(|word| (word.start < gutter) == left).collect())
            .filter(|line: &Vec<&Word>| !line.is_empty())
            .collect();
        if own.len() < COLUMN_LINES {
            return false;
        }
        let begin = own.iter().map(|line| line[0].start).fold(f64::MAX, f64::min);
        let end = own.iter().flatten().map(|word| word.end).fold(f64::MIN, f64::max);
        let filled: f64 = own.iter().flatten().map(|word| word.end - word.start + 0.25 * word.size).sum();
        let words = own.iter().map(Vec::len).sum::<usize>() as f64;
        let gaps = |line: &&Vec<&Word>| {
            line.windows(2).any(|pair| pair[1].start - pair[0].end > 1.5 * WIDE_GAP * pair[0].size)
        };
        let count = own.len() as f64;
        filled / count > COLUMN_FILL * (end - begin)
            && words / count > COLUMN_WORDS
            && own.iter().filter(gaps).count() as f64 <= 0.1 * count
    };
    (runs(true) && runs(false)).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Glyphs of a text, each half as wide as the font size.
    fn text(words: &str, x: f64, y: f64, size: f64) -> Vec<Glyph> {
        let place = |(i, c): (usize, char)| {
            Glyph::new(c.to_string(), (x + i as f64 * size / 2.0, y), (size / 2.0, 0.0), size)
        };
        words.chars().enumerate().map(place).collect()
    }

    fn page(glyphs: Vec<Vec<Glyph>>) -> String {
        let mut out = Text::default();
        add_page(&mut out, 1, &mut glyphs.concat());
        for word in &out.words {
            assert!(!out.text[word.bytes.clone()].contains(' ') && word.area[0] < word.area[2], "{word:?}");
        }
        out.text
    }

    #[test]
    fn rows_of_tables_stay_together_in_any_order_of_drawing() {
        let cells =
            [("Lamp", 10.0, 24.0), ("12.00", 200.0, 24.0), ("Item", 10.0, 10.0), ("Price", 200.0, 10.0)];
        let drawn = cells.map(|(words, x, y)| text(words, x, y, 10.0));
        assert_eq!(page(drawn.to_vec()), "Item  Price\nLamp  12.00\n");
    }

    #[test]
    fn columns_of_running_text_are_read_one_after_the_other() {
        let line = |column: usize, i: usize| {
            text(
                &format!("col{column} some words line{i}"),
                20.0 + 130.0 * column as f64,
                50.0 + 12.0 * i as f64,
                10.0,
            )
        };
        let mut drawn = vec![text("A heading across both of the columns here", 20.0, 20.0, 10.0)];
        (0..8).for_each(|i| drawn.extend([line(0, i), line(1, i)]));
        let read = page(drawn);
        let lines: Vec<&str> = read.lines().filter(|line| line.starts_with("col")).collect();
        assert!(lines[..8].iter().all(|line| line.starts_with("col0")), "{read}");
        assert!(lines[8..].iter().all(|line| line.starts_with("col1")), "{read}");
    }

    #[test]
    fn glyphs_drawn_twice_count_once_and_turned_text_comes_last() {
        let bold = [text("Total", 10.0, 10.0, 10.0), text("Total", 10.4, 10.0, 10.0)];
        assert_eq!(page(bold.to_vec()), "Total\n");
        let upwards = "DRAFT"
            .chars()
            .enumerate()
            .map(|(i, c)| Glyph::new(c.to_string(), (5.0, 100.0 - 5.0 * i as f64), (0.0, -5.0), 10.0));
        assert_eq!(page(vec![upwards.collect(), text("a b", 50.0, 50.0, 10.0)]), "a b\nDRAFT\n");
    }

    /// As programs draw them: letters from the right to the left, or all at their places.
    #[test]
    fn words_from_the_right_are_read_from_there() {
        let visual = |words: &str| page(vec![text(words, 10.0, 10.0, 10.0)]);
        // Shalom olam, and a number; a name between; a mark at the end.
        assert_eq!(visual("12 500 םלוע םולש"), "שלום עולם 12 500\n");
        assert_eq!(visual(".םולש Acme Ltd םלוע"), "עולם Acme Ltd שלום.\n");
        assert_eq!(visual("Acme Ltd sells םולש םלוע"), "Acme Ltd sells עולם שלום\n");
        assert_eq!(visual("abc 12"), "abc 12\n");
        assert_eq!(visual(".5.50 םולש ,12 \u{fefb}\u{fe8d}"), "الا 12, שלום 5.50.\n");
        assert_eq!(visual("(םולש)"), "(שלום)\n");
        assert_eq!(visual("(םולש םלוע)"), "(עולם שלום)\n");
        assert_eq!(visual(")םולש םלוע("), "(עולם שלום)\n");
        let cells = [("םולש", 300.0), ("Acme", 200.0), ("3", 100.0), ("12.50", 10.0)];
        let cells = cells.map(|(words, x)| text(words, x, 10.0, 10.0));
        assert_eq!(page(cells.to_vec()), "שלום  Acme  3  12.50\n");
    }

    #[test]
    fn ligatures_and_raised_letters_are_text() {
        let raised = vec![text("of\u{fb01}ce", 10.0, 10.0, 10.0), text("2", 35.5, 6.5, 6.0)];
        assert_eq!(page(raised), "office2\n");
    }
}
