//! Feature `serde`: rules as their texts.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Plan;
use crate::cron::Cron;
use crate::rules::Calendar;
use crate::zone::InZone;
use crate::zone_name::NAMELESS;

/// Nothing is stored that is not read back as the same.
fn write<T, S>(value: &T, to: S) -> Result<S::Ok, S::Error>
where
    T: Display + FromStr<Err: Display> + PartialEq,
    S: Serializer,
{
    let text = value.to_string();
    if text.contains(NAMELESS) {
        return Err(S::Error::custom("a rule in a zone without a name cannot be read back"));
    }
    match text.parse::<T>() {
        Ok(read) if read == *value => to.serialize_str(&text),
        Ok(read) => Err(S::Error::custom(format!("a rule that would be read back as another, {read}"))),
        Err(error) => Err(S::Error::custom(format!("a rule that could not be read back: {error}"))),
    }
}

fn read<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    // Borrowed or not, as the format has it.
    let text = String::deserialize(from)?;
    text.parse().map_err(D::Error::custom)
}

impl Serialize for Cron {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        write(self, to)
    }
}

impl<'de> Deserialize<'de> for Cron {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from)
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        write(self, to)
    }
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from)
    }
}

impl<T> Serialize for InZone<T>
where
    Self: Display + FromStr<Err: Display> + PartialEq,
{
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        write(self, to)
    }
}

impl<'de> Deserialize<'de> for InZone<Cron> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from)
    }
}

impl<'de> Deserialize<'de> for InZone<Calendar> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from)
    }
}
