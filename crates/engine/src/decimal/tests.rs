use proptest::prelude::*;

use super::*;

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Decimal::new(value.to_string())
    }
}

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn decimals_compare_exactly() {
    let ordered = [
        "-1e30",
        "-12.5",
        "-12.4999999999999999999999",
        "-0.001",
        "0",
        "1e-5",
        "0.1",
        "0.10000000000000000001",
        "1",
        "9007199254740992",
        "9007199254740993",
        "1e30",
    ];
    for (i, a) in ordered.iter().enumerate() {
        for (j, b) in ordered.iter().enumerate() {
            assert_eq!(decimal(a).cmp(&decimal(b)), i.cmp(&j), "{a} {b}");
        }
    }
    for (a, b) in [
        ("1", "1.0"),
        ("100", "1e2"),
        ("0.05", "5E-2"),
        ("-0", "0e99999999999999999999"),
        ("12.30", "123e-1"),
    ] {
        assert_eq!(decimal(a), decimal(b));
    }
    assert_eq!(Decimal::from(i64::MIN), decimal("-9223372036854775808"));
    assert_eq!(Decimal::from(0), decimal("-0.0"));
    for text in ["12.5", "-0.001", "0", "100", "9007199254740993"] {
        assert_eq!(decimal(text).to_string(), text);
    }
    assert_eq!(decimal("1234e300").to_string(), "1.234e303");
    assert_eq!(decimal("-1e-300").to_string(), "-1e-300");
    assert_eq!(decimal("1e99").count(), Some(u32::MAX));
    assert!(["-", "2", "13", "12.6", "0.2"].iter().all(|text| !decimal("12.5").may_begin(text.as_bytes())));
}

#[test]
fn decimals_refuse_what_is_no_number_or_too_long() {
    for text in ["", "-", "+1", "01", "1.", ".1", "1e", "1e+", "1x", "NaN", "--1", "1.2.3", "1e5e5", "é"] {
        assert_eq!(Decimal::parse(text).unwrap_err().kind(), ErrorKind::InvalidJson, "{text}");
    }
    for text in ["1e10001", "1e-10002", "1e99999999999999999999999", "-1E-99999999999999999999999"] {
        assert_eq!(Decimal::parse(text).unwrap_err().kind(), ErrorKind::TooComplex, "{text}");
    }
    assert_eq!(Decimal::parse(&"1".repeat(10_001)).unwrap_err().kind(), ErrorKind::TooComplex);
    assert!(Decimal::parse(&"1".repeat(10_000)).is_ok());
}

/// Exponents of the random numbers have at most this magnitude.
const REACH: i32 = 6;
/// Maximum number of digits before and after the point of the random numbers.
const DIGITS: usize = 5;

/// Texts of numbers that a 128-bit fixed-point number holds exactly.
fn number_text() -> impl Strategy<Value = String> {
    let whole = prop_oneof![Just("0".to_owned()), "[1-9][0-9]{0,4}", "[1-9]0{0,4}"];
    let fraction = prop_oneof![Just(String::new()), r"\.[0-9]{1,5}", r"\.0{1,4}[0-9]", r"\.[0-9]0{1,4}"];
    let exponent = prop_oneof![Just(String::new()), "[eE][+-]?0?[0-6]"];
    ("-?", whole, fraction, exponent).prop_map(|(sign, a, b, c)| format!("{sign}{a}{b}{c}"))
}

/// The slow reference: the value times `10^(REACH + DIGITS)`, an integer.
fn reference(text: &str) -> i128 {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap();
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().unwrap();
    let negative = text.starts_with('-');
    let digits = if negative { -digits.abs() } else { digits };
    let scale = REACH + DIGITS as i32 + exponent - fraction.len() as i32;
    digits * 10i128.pow(u32::try_from(scale).unwrap())
}

const ONE: i128 = 10i128.pow(REACH as u32 + DIGITS as u32);

proptest! {
    #[test]
    fn order_and_hash_are_those_of_fixed_point_numbers(a in number_text(), b in number_text()) {
        let (x, y) = (Decimal::new(&a), Decimal::new(&b));
        prop_assert_eq!(x.cmp(&y), reference(&a).cmp(&reference(&b)), "{} {}", a, b);
        prop_assert_eq!(x == y, reference(&a) == reference(&b), "{} {}", a, b);
        prop_assert_eq!(&x, &decimal(&a));
        prop_assert_eq!(x.negated().cmp(&y.negated()), y.cmp(&x));
    }

    #[test]
    fn properties_are_those_of_fixed_point_numbers(text in number_text()) {
        let (x, value) = (Decimal::new(&text), reference(&text));
        prop_assert_eq!(x.is_zero(), value == 0);
        prop_assert_eq!(x.is_negative(), value < 0);
        prop_assert_eq!(x.is_integer(), value % ONE == 0);
        let count = (value >= 0 && value % ONE == 0).then(|| u32::try_from(value / ONE).unwrap_or(u32::MAX));
        prop_assert_eq!(x.count(), count, "{}", text);
        let power = (0..=REACH as u32 + DIGITS as u32).find(|&k| value * 10i128.pow(k) == ONE);
        prop_assert_eq!(x.negative_power_of_ten(), power, "{}", text);
        for limit in [1, 1_000, u64::MAX] {
            match x.scaled(limit) {
                Some((n, s)) => {
                    prop_assert!(n < limit);
                    prop_assert_eq!(i128::from(n) * ONE, value.abs() * 10i128.pow(s), "{}", text);
                }
                // The least such `n` is not below the limit.
                None => prop_assert!(value.abs() >= i128::from(limit), "{}", text),
            }
        }
    }

    #[test]
    fn texts_of_a_number_are_read_back(text in number_text()) {
        let x = Decimal::new(&text);
        prop_assert_eq!(&decimal(&x.to_string()), &x);
        let (whole, fraction) = x.digits();
        prop_assert!(!whole.is_empty() && (whole.len() == 1 || whole[0] != 0) && fraction.last() != Some(&0));
        let digits = |list: &[u8]| list.iter().map(|d| char::from(b'0' + d)).collect::<String>();
        let sign = if x.is_negative() { "-" } else { "" };
        prop_assert_eq!(&Decimal::new(format!("{sign}{}.{}", digits(&whole), digits(&fraction))), &x);
    }

    #[test]
    fn multiples_are_those_of_integers(a in number_text(), b in number_text()) {
        let (x, y) = (reference(&a), reference(&b));
        let expected = if y == 0 { x == 0 } else { x % y == 0 };
        prop_assert_eq!(Decimal::new(&a).is_multiple_of(&Decimal::new(&b)), Some(expected), "{} {}", a, b);
    }

    #[test]
    fn every_beginning_of_an_equal_text_may_begin(a in number_text(), b in number_text()) {
        let x = Decimal::new(&a);
        for end in 1..=a.len() {
            prop_assert!(x.may_begin(&a.as_bytes()[..end]), "{}", a);
        }
        // What a text refuses is no beginning of an equal one.
        if !x.may_begin(b.as_bytes()) {
            prop_assert!(reference(&a) != reference(&b), "{} {}", a, b);
        }
    }
}

#[test]
fn absurd_exponents_stay_apart_and_in_range() {
    let texts = ["-1e99999999999999999999", "-1e9", "1e-99999999999999999999", "1", "1e9", "1e2000000000000"];
    let numbers = texts.map(Decimal::new);
    assert!(numbers.is_sorted_by(|a, b| a < b));
    for a in &numbers {
        for b in &numbers {
            let _ = (a.is_multiple_of(b), a.scaled(u64::MAX), a.count(), a.negated(), a.is_integer());
        }
    }
}
