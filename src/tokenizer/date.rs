//! Dates for chat templates: Python's `strftime`, in UTC.
//!
//! Invariant: told the time; it reads no clock.

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
/// The first of 1970 was a Thursday.
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

const SECONDS_PER_DAY: u64 = 86_400;

/// `format` with its codes filled in; codes that are not known stay as they are. `now`: seconds since 1970.
pub(super) fn strftime(format: &str, now: u64) -> String {
    let (days, seconds) = (now / SECONDS_PER_DAY, now % SECONDS_PER_DAY);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let month_name = MONTHS[(month - 1) as usize];
    let day_name = DAYS[(days % 7) as usize];
    let mut text = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let mut code = chars.next();
        let is_bare = code == Some('-');
        if is_bare {
            code = chars.next();
        }
        let two = |n: u64| if is_bare { n.to_string() } else { format!("{n:02}") };
        text += &match code {
            Some('Y') => year.to_string(),
            Some('y') => two(year % 100),
            Some('m') => two(month),
            Some('d') => two(day),
            Some('H') => two(hour),
            Some('M') => two(minute),
            Some('S') => two(second),
            Some('B') => month_name.to_owned(),
            Some('b') => month_name[..3].to_owned(),
            Some('A') => day_name.to_owned(),
            Some('a') => day_name[..3].to_owned(),
            Some('%') => "%".to_owned(),
            Some(other) => format!("%{other}"),
            None => "%".to_owned(),
        };
    }
    text
}

/// Year, month and day of the days since 1970: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day comes last.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::strftime;

    #[test]
    fn dates_are_python_s() {
        // date -u -d @N; 1709164800 is the leap day of 2024.
        for (now, date) in [(0, "1970-01-01 Thu"), (1_709_164_800, "2024-02-29 Thu"), (1_709_251_200, "2024-03-01 Fri")]
        {
            assert_eq!(strftime("%Y-%m-%d %a", now), date);
        }
        assert_eq!(
            strftime("%d %b %Y, %B %-d, %A %H:%M:%S 100%% %q %", 1_764_720_005),
            "03 Dec 2025, December 3, Wednesday 00:00:05 100% %q %"
        );
    }
}
