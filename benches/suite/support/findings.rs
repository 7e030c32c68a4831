//! What a case found: tables and charts.

use serde::{Deserialize, Serialize};

use super::table::Table;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Findings {
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
}

impl From<Table> for Findings {
    fn from(table: Table) -> Self {
        Self { tables: vec![table], charts: Vec::new() }
    }
}

/// Points joined by lines, drawn to an SVG file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Chart {
    /// The file's name without its ending.
    pub(crate) file: String,
    title: String,
    better: Better,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

impl Chart {
    pub(crate) fn new(file: &str, title: &str, better: Better, x: Axis, y: Axis) -> Self {
        Self { file: file.into(), title: title.into(), better, x, y, series: Vec::new() }
    }

    /// The title, and where in the picture the better ones are.
    pub(crate) fn caption(&self) -> String {
        let better = match self.better {
            Better::Less => "less is better",
            Better::More => "more is better",
            Better::Left => "further left is better",
            Better::LowerRight => "lower right is better",
        };
        format!("{}: {better}", self.title)
    }

    pub(crate) fn series(mut self, name: &str, points: Vec<(f64, f64)>) -> Self {
        self.series.push(Series { name: name.into(), points });
        self
    }
}

/// Which of two lines is the better one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Better {
    Less,
    More,
    Left,
    LowerRight,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// With its unit.
    pub(crate) label: String,
    pub(crate) log: bool,
}

impl Axis {
    pub(crate) fn linear(label: &str) -> Self {
        Self { label: label.into(), log: false }
    }

    /// Its values have to be above zero.
    pub(crate) fn log(label: &str) -> Self {
        Self { label: label.into(), log: true }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}
