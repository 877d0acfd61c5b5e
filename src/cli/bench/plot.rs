//! Plots as SVG texts, drawn by `plotters`.
//!
//! Axes and texts have two fixed colors, which pages and stylesheets replace where the background
//! is dark.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::cli::spread::Spread;
use crate::error::{Error, ErrorKind, Result};

/// The color of texts and axes, and that of the grid. A stylesheet names them.
pub(super) const INK: RGBColor = RGBColor(0x3b, 0x42, 0x52);
pub(super) const GRID: RGBColor = RGBColor(0xd5, 0xd9, 0xe0);

/// The area of a plot.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Pixels of a plot on wide and on narrow screens.
pub(super) const WIDE: u32 = 1000;
pub(super) const NARROW: u32 = 420;

/// Returns the SVG text of a drawing.
///
/// # Errors
/// If it cannot be drawn, such as a range without values.
pub(super) fn svg(
    size: (u32, u32),
    draw: impl FnOnce(&Area) -> std::result::Result<(), String>,
) -> Result<String> {
    let mut text = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area).and_then(|()| area.present().map_err(|e| e.to_string()))
    };
    drawn.map_err(|e| Error::new(ErrorKind::Io, format!("a plot cannot be drawn: {e}")))?;
    Ok(text)
}

/// Returns an error of a drawing as a text.
pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Returns the two sizes of a plot as a part of a page.
pub(super) fn figure(label: &str, plot: impl Fn(u32) -> Result<String>) -> Result<String> {
    let label = crate::cli::table::escaped(label);
    let sized = |class: &str, width| {
        let svg = plot(width)?.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1);
        Ok::<_, Error>(format!("<div class=\"plot {class}\">{svg}</div>\n"))
    };
    Ok(sized("wide", WIDE)? + &sized("narrow", NARROW)?)
}

/// A value with its quartiles, on a line of a plot.
pub(super) struct Mark {
    pub line: usize,
    /// Marks of one line are drawn one below the other.
    pub lane: usize,
    pub value: Spread,
    pub color: RGBColor,
}

/// Draws marks on named lines along one axis, with a line at `reference`.
pub(super) fn marks(
    width: u32,
    axis: &str,
    lines: &[String],
    lanes: usize,
    marks: &[Mark],
    reference: f64,
) -> Result<String> {
    let lanes = lanes.max(1);
    let (step, names) = (14 * lanes as u32 + 12, if width < WIDE { 112 } else { 170 });
    let most = marks.iter().map(|mark| mark.value.high).fold(reference, f64::max) * 1.06;
    let count = lines.len() as f64;
    svg((width, step * lines.len() as u32 + 56), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(16)
            .x_label_area_size(40)
            .y_label_area_size(names)
            .build_cartesian_2d(0.0..most.max(1e-9), 0.0..count.max(1.0))
            .map_err(text)?;
        let font = ("sans-serif", 13).into_font().color(&INK);
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(font.clone())
            .x_desc(axis)
            .x_labels(if width < WIDE { 5 } else { 10 })
            .y_labels(0)
            .draw()
            .map_err(text)?;
        let plotting = chart.plotting_area();
        let rule = |y: f64, style: ShapeStyle| PathElement::new(vec![(0.0, y), (most, y)], style);
        for (i, name) in lines.iter().enumerate() {
            plotting.draw(&rule(count - i as f64, GRID.stroke_width(1))).map_err(text)?;
            let at = plotting.map_coordinate(&(0.0, count - i as f64 - 0.5));
            let style = font.clone().into_text_style(area).pos(right_middle());
            area.draw_text(&fitting(name, names), &style, (at.0 - 8, at.1)).map_err(text)?;
        }
        let upright = vec![(reference, 0.0), (reference, count)];
        plotting.draw(&PathElement::new(upright, INK.stroke_width(1))).map_err(text)?;
        for mark in marks {
            let y = count - mark.line as f64 - (mark.lane as f64 + 0.9) / (lanes as f64 + 0.8);
            let whisker = vec![(mark.value.low, y), (mark.value.high, y)];
            plotting.draw(&PathElement::new(whisker, mark.color.stroke_width(2))).map_err(text)?;
            plotting.draw(&Circle::new((mark.value.median, y), 4, mark.color.filled())).map_err(text)?;
        }
        Ok(())
    })
}

fn right_middle() -> plotters::style::text_anchor::Pos {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    Pos::new(HPos::Right, VPos::Center)
}

/// Returns the beginning of a name that fits into this number of pixels.
fn fitting(name: &str, pixels: u32) -> String {
    let most = (pixels / 8) as usize;
    match name.chars().count() > most {
        true => name.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_an_svg_with_their_colors() {
        let mark = Mark { line: 0, lane: 0, value: Spread::of(&[1.9, 2.0, 2.2]), color: RGBColor(1, 2, 3) };
        let names = ["a < b".to_owned(), "a name that is much too long for the margin".into()];
        for width in [WIDE, NARROW] {
            let svg = marks(width, "times off", &names, 1, &[mark.copy()], 1.0).unwrap();
            assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
            assert!(svg.contains("#010203") && svg.contains("#3B4252") && svg.contains("a &lt; b"), "{svg}");
        }
        // No marks at all.
        assert!(marks(WIDE, "", &[], 0, &[], 0.0).is_ok());
    }

    impl Mark {
        fn copy(&self) -> Mark {
            Mark { ..*self }
        }
    }
}
