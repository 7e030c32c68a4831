//! Which of every n days count.

/// Which days there are of every n: those of these weekdays that are business days, if that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    /// A bit for each weekday, of which 0 is Sunday.
    pub(super) weekdays: u8,
    pub(super) business_days: bool,
}

impl Filter {
    pub(super) const ALL: Self = Self { weekdays: 0x7f, business_days: false };

    pub(super) const fn has_weekdays(self) -> bool {
        self.weekdays != Self::ALL.weekdays
    }
}
