//! The narrowest type that holds every text of a column without changing any (DESIGN §16.6).

use sovm_object::types::ColumnType;

use super::parse::{self, Instant};

/// What a column may still be after the values seen. Empty fields and null words are not shown to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    any: bool,
    number: bool,
    boolean: bool,
    integer: bool,
    float: bool,
    date: bool,
    utc: bool,
    local: bool,
}

impl Default for Guess {
    fn default() -> Self {
        Self {
            any: false,
            number: false,
            boolean: true,
            integer: true,
            float: true,
            date: true,
            utc: true,
            local: true,
        }
    }
}

impl Guess {
    /// Takes one more value.
    pub(super) fn see(&mut self, text: &str) {
        self.any = true;
        // Spaces around a number are padding; around text they belong to it.
        let text = text.trim_matches(' ');
        if self.integer {
            self.integer = parse::is_integer_literal(text) && text.parse::<i64>().is_ok();
        }
        if self.float {
            // Whole numbers of up to fifteen digits are exact in a float.
            let plain = self.integer && text.len() <= 15;
            let number = plain || parse::lossless_float(text).is_some();
            self.number |= number;
            self.float = number || parse::float_word(text).is_some();
        }
        if self.boolean {
            self.boolean = parse::boolean(text).is_some();
        }
        if self.date {
            self.date = parse::date(text).is_some();
        }
        if self.utc || self.local {
            let instant = parse::instant(text);
            self.utc &= matches!(instant, Some(Instant::Utc(_)));
            self.local &= matches!(instant, Some(Instant::Local(_)));
        }
    }

    /// What the column may be after the values of both.
    pub(super) const fn with(self, other: &Self) -> Self {
        Self {
            any: self.any | other.any,
            number: self.number | other.number,
            boolean: self.boolean & other.boolean,
            integer: self.integer & other.integer,
            float: self.float & other.float,
            date: self.date & other.date,
            utc: self.utc & other.utc,
            local: self.local & other.local,
        }
    }

    /// Whether any value was seen.
    pub(super) const fn any(&self) -> bool {
        self.any
    }

    /// The type; text for a column without values, which takes whatever comes later.
    pub(super) const fn finish(&self) -> ColumnType {
        match self {
            Self { any: false, .. } => ColumnType::Text,
            Self { boolean: true, .. } => ColumnType::Bool,
            Self { integer: true, .. } => ColumnType::Int64,
            // Words like NaN alone may as well be text.
            Self {
                float: true,
                number: true,
                ..
            } => ColumnType::Float64,
            Self { date: true, .. } => ColumnType::Date,
            Self { utc: true, .. } => ColumnType::TimestampUs,
            Self { local: true, .. } => ColumnType::TimestampUsLocal,
            _ => ColumnType::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The type, which is the same however the values are shared out.
    fn guess(values: &[&str]) -> ColumnType {
        let see = |values: &[&str]| {
            let mut guess = Guess::default();
            values.iter().for_each(|value| guess.see(value));
            guess
        };
        let all = see(values).finish();
        for cut in 0..values.len() {
            let (left, right) = values.split_at(cut);
            assert_eq!(see(left).with(&see(right)).finish(), all, "{values:?} cut at {cut}");
        }
        all
    }

    /// DESIGN §16.6: int64, float64, bool, date, ISO timestamp, else text; leading zeros stay text.
    #[test]
    fn one_type_for_all_values() {
        use ColumnType as T;
        let cases: [(&[&str], T); 33] = [
            (&[], T::Text),
            (&["1", "-2", "0"], T::Int64),
            (&[" 1", "2 "], T::Int64),
            (&["9223372036854775807", "-9223372036854775808"], T::Int64),
            (&["9223372036854775808"], T::Float64),
            (&["9223372036854775809"], T::Text),
            (&["1", "2.5"], T::Float64),
            (&["2.5", "1"], T::Float64),
            (&["9007199254740993", "2.5"], T::Text),
            (&["2.5", "9007199254740993"], T::Text),
            (&["9007199254740992", "2.5"], T::Float64),
            (&["1e5", "-0"], T::Float64),
            (&["1", "NaN", "-inf"], T::Float64),
            (&["NaN"], T::Text),
            (&["1e999"], T::Text),
            (&["007"], T::Text),
            (&["1", "02"], T::Text),
            (&["0.5", "00.5"], T::Text),
            (&["+5"], T::Text),
            (&["1,5"], T::Text),
            (&["true", "FALSE", "False"], T::Bool),
            (&["true", "1"], T::Text),
            (&["t", "f"], T::Text),
            (&["2013-01-01", "1999-12-31"], T::Date),
            (&["2013-01-01", "2013-02-30"], T::Text),
            (&["2013-01-01", "2013-01-01T00:00:00"], T::Text),
            (&["2013-01-01T06:00:00Z", "2013-01-01 06:00+02:00"], T::TimestampUs),
            (&["2013-01-01T06:00:00"], T::TimestampUsLocal),
            (&["2013-01-01T06:00:00Z", "2013-01-01T06:00:00"], T::Text),
            (&["2013-01-01T06:00:00.1234567Z"], T::Text),
            (&["12:30"], T::Text),
            (&["1", "", "2"], T::Text),
            (&["a"], T::Text),
        ];
        for (values, expected) in cases {
            assert_eq!(guess(values), expected, "{values:?}");
        }
    }

    /// The last value of a long column counts like the first.
    #[test]
    fn late_values_count() {
        let mut guess = Guess::default();
        (0..100_000).for_each(|_| guess.see("1"));
        assert_eq!(guess.finish(), ColumnType::Int64);
        guess.see("x");
        assert_eq!(guess.finish(), ColumnType::Text);
    }
}
