//! Draws the ratios of a table as bars.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::table::{MISSED, Table, number, ratio_in};

const WIDTH: u32 = 800;
const TITLE: i32 = 20;
const LABEL: i32 = 14;
const MARGIN: i32 = 20;
/// The title and the legend.
const HEAD: i32 = 76;
/// Where the entries of the legend begin.
const LEGEND: [i32; 4] = [MARGIN, 110, 200, 290];
/// Of one bar, with what is between two.
const ROW: i32 = 28;
const BAR: i32 = 14;
/// Half of a target's mark.
const MARK: i32 = 11;
/// Half of the cross on a bar that misses its target.
const CROSS: i32 = 6;
/// The scale's numbers.
const FOOT: i32 = 40;
/// At most so many of them, and one.
const LABELS: f64 = 8.0;
/// Where the scale begins and ends; the labels are on its left, and a number has room on its right.
const LEFT: i32 = 420;
const RIGHT: i32 = 680;
const BETTER: RGBColor = RGBColor(0, 114, 178);
const WORSE: RGBColor = RGBColor(213, 94, 0);
/// Of what is said about a target that is missed.
const ALARM: RGBColor = RGBColor(170, 0, 0);

/// A row that has a ratio.
struct Bar<'a> {
    what: &'a str,
    ratio: f64,
    target: Option<f64>,
    is_missed: bool,
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
            let (ratio, _) = ratio_in(&row[ratio]).filter(|(ratio, _)| is_of_use(ratio))?;
            let (target, is_missed) = match row[target].strip_suffix(MISSED) {
                Some(target) => (target.trim_end(), true),
                None => (&*row[target], false),
            };
            Some(Bar { what: &row[0], ratio, target: target.parse().ok(), is_missed })
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
        let title = format!("{}: ours divided by tokio's, less is better", table.title);
        head(&area, &title)?;
        rows(&area, &bars, height - FOOT)?;
        area.present()?;
    }
    Ok(Some(svg))
}

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn text(area: &Area<'_>, text: &str, size: i32, colour: RGBColor, side: HPos, place: (i32, i32)) -> Drawn {
    let style = ("sans-serif", size).into_text_style(area).color(&colour).pos(Pos::new(side, VPos::Center));
    Ok(area.draw_text(text, &style, place)?)
}

/// A target.
fn mark(area: &Area<'_>, x: i32, middle: i32, colour: RGBColor) -> Drawn {
    Ok(area.draw(&PathElement::new([(x, middle - MARK), (x, middle + MARK)], colour.stroke_width(3)))?)
}

/// Across the end of a bar that misses its target.
fn cross(area: &Area<'_>, x: i32, middle: i32) -> Drawn {
    for (left, right) in [(-CROSS, CROSS), (CROSS, -CROSS)] {
        let ends = [(x - CROSS, middle + left), (x + CROSS, middle + right)];
        area.draw(&PathElement::new(ends, ALARM.stroke_width(3)))?;
    }
    Ok(())
}

/// The title and the legend.
fn head(area: &Area<'_>, title: &str) -> Drawn {
    text(area, title, TITLE, BLACK, HPos::Left, (MARGIN, MARGIN))?;
    let middle = HEAD - MARGIN;
    let words = ["better", "worse", "target", "target missed"];
    for ((left, word), colour) in LEGEND.into_iter().zip(words).zip([BLACK, BLACK, BLACK, ALARM]) {
        text(area, word, LABEL, colour, HPos::Left, (left + MARGIN + BAR / 2, middle))?;
    }
    let [better, worse, target, missed] = LEGEND;
    for (left, colour) in [(better, BETTER), (worse, WORSE)] {
        let corners = [(left, middle - BAR / 2), (left + MARGIN, middle + BAR / 2)];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
    }
    mark(area, target + MARGIN / 2, middle, BLACK)?;
    cross(area, missed + MARGIN / 2, middle)
}

fn rows(area: &Area<'_>, bars: &[Bar<'_>], bottom: i32) -> Drawn {
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
    // So many that their labels would stand in each other are labelled in part.
    let every = ((high - low) / LABELS).ceil();
    for power in powers.take_while(|power| *power <= high) {
        let (ratio, x) = (power.exp2(), scale(power.exp2()));
        let style = if ratio == 1.0 { BLACK.stroke_width(1) } else { BLACK.mix(0.15).stroke_width(1) };
        area.draw(&PathElement::new([(x, HEAD), (x, bottom)], style))?;
        if power % every == 0.0 {
            let label = if ratio < 1.0 { format!("1/{}", ratio.recip()) } else { ratio.to_string() };
            text(area, &label, LABEL, BLACK, HPos::Center, (x, bottom + MARGIN))?;
        }
    }
    let mut middle = HEAD + ROW / 2;
    for Bar { what, ratio, target, is_missed } in bars {
        let (from, to) = (scale(1.0), scale(*ratio));
        let colour = if *ratio <= 1.0 { BETTER } else { WORSE };
        let corners = [(from.min(to), middle - BAR / 2), (from.max(to), middle + BAR / 2)];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
        if let Some(target) = target {
            mark(area, scale(*target), middle, if *is_missed { ALARM } else { BLACK })?;
        }
        text(area, &what.replace('`', ""), LABEL, BLACK, HPos::Right, (LEFT - BAR, middle))?;
        let number = number(*ratio);
        if *is_missed {
            cross(area, to, middle)?;
            text(area, &format!("{number} missed"), LABEL, ALARM, HPos::Left, (RIGHT + BAR, middle))?;
        } else {
            text(area, &number, LABEL, BLACK, HPos::Left, (RIGHT + BAR, middle))?;
        }
        middle += ROW;
    }
    Ok(())
}
