//! Draws the ratios of a table as bars.

use std::error::Error;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::findings::Table;
use super::text::number;

const WIDTH: u32 = 800;
const TITLE: i32 = 20;
const LABEL: i32 = 14;
const MARGIN: i32 = 20;
/// The title and the legend.
const HEAD: i32 = 76;
/// Of one bar, with what is between two.
const ROW: i32 = 28;
const BAR: i32 = 14;
/// Half of a target's mark.
const MARK: i32 = 11;
/// The scale's numbers.
const FOOT: i32 = 40;
/// Where the scale begins and ends; the labels are on its left, and a number has room on its right.
const LEFT: i32 = 420;
const RIGHT: i32 = 730;
const BETTER: RGBColor = RGBColor(0, 114, 178);
const WORSE: RGBColor = RGBColor(213, 94, 0);

/// A row that has a ratio.
struct Bar<'a> {
    what: &'a str,
    ratio: f64,
    target: Option<f64>,
}

/// As SVG; nothing if the table has no columns of ratios and targets, or no row with a ratio.
///
/// # Errors
/// If it cannot be drawn.
pub(crate) fn draw(table: &Table) -> Result<Option<String>, Box<dyn Error>> {
    let column = |name: &str| table.header.iter().position(|title| title == name);
    let (Some(ratio), Some(target)) = (column("ratio"), column("target")) else { return Ok(None) };
    let bars: Vec<Bar<'_>> = table
        .rows
        .iter()
        .filter_map(|row| {
            let is_of_use = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
            let ratio = row[ratio].parse().ok().filter(is_of_use)?;
            Some(Bar { what: &row[0], ratio, target: row[target].parse().ok() })
        })
        .collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let mut svg = String::new();
    let height = HEAD + ROW * i32::try_from(bars.len())? + FOOT;
    {
        let size = (WIDTH, u32::try_from(height)?);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        rows(&area, &bars, height - FOOT)?;
        area.present()?;
    }
    Ok(Some(svg))
}

fn rows<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    bars: &[Bar<'_>],
    bottom: i32,
) -> Result<(), Box<dyn Error>>
where
    B::ErrorType: 'static,
{
    let text = |text: &str, size: i32, side: HPos, place: (i32, i32)| {
        let style = ("sans-serif", size).into_text_style(area).pos(Pos::new(side, VPos::Center));
        area.draw_text(text, &style, place)
    };
    text("Ours divided by the rival's: left of 1 is better", TITLE, HPos::Left, (MARGIN, MARGIN))?;
    let legend = HEAD - MARGIN;
    area.draw(&Rectangle::new(
        [(MARGIN, legend - BAR / 2), (2 * MARGIN, legend + BAR / 2)],
        BETTER.filled(),
    ))?;
    text("better", LABEL, HPos::Left, (2 * MARGIN + BAR / 2, legend))?;
    area.draw(&Rectangle::new([(100, legend - BAR / 2), (100 + MARGIN, legend + BAR / 2)], WORSE.filled()))?;
    text("worse", LABEL, HPos::Left, (100 + MARGIN + BAR / 2, legend))?;
    area.draw(&PathElement::new([(190, legend - MARK), (190, legend + MARK)], BLACK.stroke_width(3)))?;
    text("target", LABEL, HPos::Left, (190 + BAR / 2, legend))?;

    // Powers of two that hold all bars and 1: half as much is as far from 1 as twice as much.
    let all =
        || bars.iter().flat_map(|bar| [Some(bar.ratio), bar.target, Some(1.0)]).flatten().map(f64::log2);
    let (low, high) = (all().fold(-1.0, f64::min).floor(), all().fold(1.0, f64::max).ceil());
    let scale = |ratio: f64| {
        let share = (ratio.log2() - low) / (high - low);
        // Within the picture, so far below what an integer holds.
        #[allow(clippy::cast_possible_truncation)]
        let pixels = (share * f64::from(RIGHT - LEFT)).round() as i32;
        LEFT + pixels
    };
    let powers = std::iter::successors(Some(low), |power| Some(power + 1.0));
    for ratio in powers.take_while(|power| *power <= high).map(f64::exp2) {
        let x = scale(ratio);
        let style = if ratio == 1.0 { BLACK.stroke_width(1) } else { BLACK.mix(0.15).stroke_width(1) };
        area.draw(&PathElement::new([(x, HEAD), (x, bottom)], style))?;
        text(&ratio.to_string(), LABEL, HPos::Center, (x, bottom + MARGIN))?;
    }
    let mut middle = HEAD + ROW / 2;
    for Bar { what, ratio, target } in bars {
        let (from, to) = (scale(1.0), scale(*ratio));
        let colour = if *ratio < 1.0 { BETTER } else { WORSE };
        let corners = [(from.min(to), middle - BAR / 2), (from.max(to), middle + BAR / 2)];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
        if let Some(target) = target {
            let x = scale(*target);
            area.draw(&PathElement::new([(x, middle - MARK), (x, middle + MARK)], BLACK.stroke_width(3)))?;
        }
        text(&what.replace('`', ""), LABEL, HPos::Right, (LEFT - BAR, middle))?;
        text(&number(*ratio), LABEL, HPos::Left, (RIGHT + BAR, middle))?;
        middle += ROW;
    }
    Ok(())
}
