//! The date that some templates print, by the codes of C's `strftime`.
//!
//! UTC: the one thing a library about calendars would add here is the local time zone, and a prompt should
//! not depend on where it was made.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Days in 400 years.
const ERA: i64 = 146_097;

/// Year, month and day from days since 1970: years begin in March, so that leap days come last, and are
/// counted within eras of 400 years.
fn civil(days: i64) -> (i64, usize, i64) {
    let since = days + 719_468;
    let (era, day) = (since.div_euclid(ERA), since.rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month as usize, of_month)
}

/// `format` with its codes replaced; unknown ones stay.
pub(super) fn strftime(time: SystemTime, format: &str) -> String {
    let seconds = match time.duration_since(UNIX_EPOCH) {
        Ok(d) => d.as_secs() as i64,
        Err(e) => -(e.duration().as_secs() as i64),
    };
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (name, week) = (MONTHS[month - 1], DAYS[(days + 4).rem_euclid(7) as usize]);
    let hour = second / 3600;
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let text = match chars.next() {
            Some('d') => format!("{day:02}"),
            Some('m') => format!("{month:02}"),
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year.rem_euclid(100)),
            Some('b' | 'h') => name[..3].to_owned(),
            Some('B') => name.to_owned(),
            Some('a') => week[..3].to_owned(),
            Some('A') => week.to_owned(),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{:02}", (hour + 11) % 12 + 1),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('M') => format!("{:02}", second / 60 % 60),
            Some('S') => format!("{:02}", second % 60),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('%') => "%".to_owned(),
            Some(other) => format!("%{other}"),
            None => "%".to_owned(),
        };
        out.push_str(&text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        // By hand, a day at a time over six centuries.
        let (mut year, mut month, mut day) = (1600i64, 1usize, 1i64);
        for days in -135_140..100_000 {
            assert_eq!(civil(days), (year, month, day), "{days}");
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1];
            (year, month, day) = match (day < length, month < 12) {
                (true, _) => (year, month, day + 1),
                (false, true) => (year, month + 1, 1),
                (false, false) => (year + 1, 1, 1),
            };
        }
    }

    #[test]
    fn codes_are_replaced() {
        let at = |s| UNIX_EPOCH + Duration::from_secs(s);
        assert_eq!(strftime(at(0), "%d %b %Y"), "01 Jan 1970");
        assert_eq!(strftime(at(0), "%A, %B %-d %I%p 100%% %"), "Thursday, January %-d 12AM 100% %");
        // 2024-07-26 13:05:09 UTC
        let t = at(1_721_999_109);
        assert_eq!(strftime(t, "%F %H:%M:%S %I %p %a %m %y"), "2024-07-26 13:05:09 01 PM Fri 07 24");
        assert_eq!(strftime(UNIX_EPOCH - Duration::from_secs(1), "%F %H:%M:%S"), "1969-12-31 23:59:59");
    }
}
