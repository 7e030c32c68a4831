//! Instants in `Debug`, as seen from now.

use std::fmt;

use tokio::time::Instant;

/// Shows an instant as "in 3s" or "2ms ago". The numbers in an instant mean nothing to a reader.
pub(crate) struct FromNow(pub(crate) Instant);

impl fmt::Debug for FromNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = Instant::now();
        match self.0.checked_duration_since(now) {
            Some(left) => write!(f, "in {left:?}"),
            None => write!(f, "{:?} ago", now.duration_since(self.0)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_instant_is_shown_as_seen_from_now() {
        let at = Instant::now() + Duration::from_secs(3);
        assert_eq!(format!("{:?}", FromNow(at)), "in 3s");
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(format!("{:?}", FromNow(at)), "1s ago");
    }
}
