//! Draws a chart as SVG.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::table::{Axis, Chart, Series, number};

const SIZE: (u32, u32) = (800, 460);
const FONT: &str = "sans-serif";
const TITLE: i32 = 20;
const LABEL: i32 = 15;
/// Where the title and the legend begin.
const LEFT: i32 = 20;
/// The title's line and the legend's first.
const HEAD: i32 = 66;
/// From one line of a legend to the next.
const LEGEND_LINE: i32 = 20;
const MARKER: i32 = 4;
/// Lines of more points than this have a marker on some of them only.
const MARKERS: usize = 20;
/// Told apart by those who see fewer colours too: Okabe and Ito's, then dark ones of Tol's. Each series has one of its own.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(136, 34, 85),
    RGBColor(153, 153, 51),
    RGBColor(140, 140, 140),
];

/// # Errors
/// If there is nothing to draw, a value that its axis cannot show, or a series for which there is no colour left.
pub(crate) fn draw(chart: &Chart) -> Result<String, Box<dyn Error>> {
    let (series, colours) = (chart.series.len(), COLOURS.len());
    if series > colours {
        return Err(
            format!("{} has {series} series: there are colours for at most {colours}", chart.file).into()
        );
    }
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let places = legend_places(&root, &chart.series)?;
        let lines_more = places.last().map_or(0, |&(_, line)| line);
        let (head, body) = root.split_vertically(HEAD + lines_more * LEGEND_LINE);
        let title = (FONT, TITLE).into_text_style(&head).pos(Pos::new(HPos::Left, VPos::Top));
        head.draw_text(&chart.caption(), &title, (LEFT, 10))?;
        legend(&head, &chart.series, &places)?;
        lines(&body, chart)?;
        root.present()?;
    }
    Ok(svg)
}

fn lines(area: &DrawingArea<SVGBackend<'_>, Shift>, chart: &Chart) -> Result<(), Box<dyn Error>> {
    let all = || chart.series.iter().flat_map(|series| &series.points);
    let x = Coordinate::new(&chart.x, all().map(|point| point.0).collect(), false)?;
    let y = Coordinate::new(&chart.y, all().map(|point| point.1).collect(), true)?;
    let mut context = ChartBuilder::on(area)
        .margin(8)
        .margin_right(24)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(x, y)?;
    let text = |value: &f64| plain(*value);
    context
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .axis_desc_style((FONT, LABEL))
        .label_style((FONT, LABEL - 2))
        .x_desc(&chart.x.label)
        .y_desc(&chart.y.label)
        .x_label_formatter(&text)
        .y_label_formatter(&text)
        .draw()?;
    for (number, series) in chart.series.iter().enumerate() {
        let colour = COLOURS[number];
        context.draw_series(LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)))?;
        let every = series.points.len().div_ceil(MARKERS).max(1);
        let places = series.points.iter().step_by(every);
        let marker = |&place| EmptyElement::at(place) + Polygon::new(marker(number), colour.filled());
        context.draw_series(places.map(marker))?;
    }
    Ok(())
}

/// The length of a series' line in the legend, and the room beside it.
const SAMPLE: i32 = 30;
const GAP: i32 = 8;

/// Where the series stand in the legend: from the left, and on which of its lines.
fn legend_places(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    all: &[Series],
) -> Result<Vec<(i32, i32)>, Box<dyn Error>> {
    let right = i32::try_from(SIZE.0)?;
    let style = (FONT, LABEL).into_text_style(area);
    let (mut left, mut line) = (LEFT, 0);
    all.iter()
        .map(|Series { name, .. }| {
            let width = SAMPLE + 3 * GAP + i32::try_from(area.estimate_text_size(name, &style)?.0)?;
            if left > LEFT && left + width > right {
                (left, line) = (LEFT, line + 1);
            }
            let place = (left, line);
            left += width;
            Ok(place)
        })
        .collect()
}

/// Above the lines, so that it hides none.
fn legend(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    all: &[Series],
    places: &[(i32, i32)],
) -> Result<(), Box<dyn Error>> {
    for (number, (Series { name, .. }, &(left, line))) in all.iter().zip(places).enumerate() {
        let middle = HEAD - 16 + line * LEGEND_LINE;
        let colour = COLOURS[number];
        let ends = vec![(left, middle), (left + SAMPLE, middle)];
        area.draw(&PathElement::new(ends, colour.stroke_width(2)))?;
        let place = (left + SAMPLE / 2, middle);
        area.draw(&(EmptyElement::at(place) + Polygon::new(marker(number), colour.filled())))?;
        let style = (FONT, LABEL).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(name, &style, (left + SAMPLE + GAP, middle))?;
    }
    Ok(())
}

/// The corners of a series' marker, round its place.
fn marker(number: usize) -> Vec<(i32, i32)> {
    const M: i32 = MARKER;
    /// A corner of an octagon.
    const C: i32 = MARKER / 2;
    match number % 4 {
        0 => vec![(-C, -M), (C, -M), (M, -C), (M, C), (C, M), (-C, M), (-M, C), (-M, -C)],
        1 => vec![(-M, M), (0, -M), (M, M)],
        2 => vec![(-M, -M), (M, -M), (M, M), (-M, M)],
        _ => vec![(0, -M - 1), (M + 1, 0), (0, M + 1), (-M - 1, 0)],
    }
}

/// An axis of either form, in one type.
enum Coordinate {
    Linear(RangedCoordf64),
    /// So few values that each has its own grid line.
    Few(RangedCoordf64, Vec<f64>),
    Log(LogCoord<f64>),
}

impl Coordinate {
    fn new(axis: &Axis, mut values: Vec<f64>, from_zero: bool) -> Result<Self, Box<dyn Error>> {
        /// More grid lines than that are too close together.
        const FEW: usize = 8;
        /// What is left free at the ends.
        const ROOM: f64 = 0.05;
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Err("a chart without points".into());
        };
        if !min.is_finite() || !max.is_finite() || (axis.log && min <= 0.0) {
            return Err(format!("{} from {min} to {max}", axis.label).into());
        }
        if axis.log {
            let room = 1.0 + 2.0 * ROOM;
            return Ok(Self::Log((min / room..max * room).log_scale().into()));
        }
        let min = if from_zero { min.min(0.0) } else { min };
        let room = if max > min { (max - min) * ROOM } else { 1.0 };
        let below = if from_zero && min >= 0.0 { 0.0 } else { room };
        let range = (min - below..max + room).into();
        Ok(if !from_zero && values.len() <= FEW { Self::Few(range, values) } else { Self::Linear(range) })
    }
}

impl Ranged for Coordinate {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self {
            Self::Linear(range) | Self::Few(range, _) => range.map(value, limit),
            Self::Log(range) => range.map(value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self {
            Self::Linear(range) => range.key_points(hint),
            Self::Few(_, values) => values.clone(),
            Self::Log(range) => range.key_points(hint),
        }
    }

    fn range(&self) -> Range<f64> {
        match self {
            Self::Linear(range) | Self::Few(range, _) => range.range(),
            Self::Log(range) => range.range(),
        }
    }
}

/// A number without what says nothing: 0.5, 20, 1,000,000.
fn plain(value: f64) -> String {
    let text = number(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}
