//! The date that some chat templates print (`strftime_now`), in UTC.
//!
//! A prompt must not depend on the local time zone.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::fmt::strtime::{BrokenDownTime, Config};

/// Formats a time by the codes of C's `strftime`. Unknown codes stay unchanged. A time outside of
/// the years that `jiff` represents becomes the nearest one.
pub(super) fn strftime(time: SystemTime, format: &str) -> String {
    let nearest = if time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
    let time = Timestamp::try_from(time).unwrap_or(nearest);
    let config = Config::new().lenient(true);
    BrokenDownTime::from(time).to_string_with_config(&config, format).unwrap_or_else(|_| format.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn codes_are_replaced() {
        let at = |s| UNIX_EPOCH + Duration::from_secs(s);
        assert_eq!(strftime(at(0), "%d %b %Y"), "01 Jan 1970");
        assert_eq!(strftime(at(0), "%A, %B %-d %I%p 100%% %"), "Thursday, January 1 12AM 100% %");
        // 2024-07-26 13:05:09 UTC
        let t = at(1_721_999_109);
        assert_eq!(strftime(t, "%F %H:%M:%S %I %p %a %m %y"), "2024-07-26 13:05:09 01 PM Fri 07 24");
        assert_eq!(strftime(UNIX_EPOCH - Duration::from_secs(1), "%F %H:%M:%S"), "1969-12-31 23:59:59");
        assert_eq!(strftime(at(951_782_400), "%F"), "2000-02-29");
    }

    #[test]
    fn unknown_codes_stay_and_nothing_panics() {
        assert_eq!(strftime(UNIX_EPOCH, "%Ö %"), "%Ö %");
        for seconds in [1u64 << 40, u64::MAX >> 2] {
            if let Some(time) = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)) {
                assert!(!strftime(time, "%F").is_empty());
            }
        }
    }
}
