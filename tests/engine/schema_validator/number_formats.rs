//! Formats of numbers, against the parsers of the machine types themselves.

use ffwd::Policy;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::accepts;

use super::Schemas;

/// A reader of a machine type: true if it takes the text.
type Reader = fn(&str) -> bool;

const INTEGERS: &[(&str, Reader)] = &[
    ("int8", |text| text.parse::<i8>().is_ok()),
    ("int16", |text| text.parse::<i16>().is_ok()),
    ("int32", |text| text.parse::<i32>().is_ok()),
    ("int64", |text| text.parse::<i64>().is_ok()),
    ("int", |text| text.parse::<i64>().is_ok()),
    ("int128", |text| text.parse::<i128>().is_ok()),
    ("uint8", |text| text.parse::<u8>().is_ok()),
    ("uint16", |text| text.parse::<u16>().is_ok()),
    ("uint32", |text| text.parse::<u32>().is_ok()),
    ("uint64", |text| text.parse::<u64>().is_ok()),
    ("uint", |text| text.parse::<u64>().is_ok()),
    ("uint128", |text| text.parse::<u128>().is_ok()),
];

/// A number near the bounds of the types, or any number.
fn text(random: &mut Random) -> String {
    let bits = *random.pick(&[7, 8, 15, 16, 31, 32, 63, 64]);
    let near = (1i128 << bits) + random.below(5) as i128 - 2;
    let near = if random.chance(50) { near } else { -near };
    match random.below(4) {
        0 => (0..1 + random.below(20)).map(|_| char::from(b'1' + random.below(9) as u8)).collect(),
        1 => format!("{near}.{}", random.below(3)),
        _ => near.to_string(),
    }
}

#[test]
fn integers_are_those_of_the_machine_type() {
    let schemas = Schemas::new();
    let mut random = Random::new(3);
    for &(name, reads) in INTEGERS {
        let read = |schema: String| schemas.compile(&schema, &Policy::default()).unwrap();
        let plain = read(format!(r#"{{"format":"{name}","type":"integer"}}"#));
        let number = read(format!(r#"{{"type":["number","string"],"format":"{name}"}}"#));
        let others = read(format!(r#"{{"type":"number","not":{{"format":"{name}"}}}}"#));
        assert!(accepts(&number, "\"text\"") && !accepts(&others, "\"text\""));
        let mut counts = [0; 2];
        for _ in 0..400 {
            let text = text(&mut random);
            let fits = reads(&text);
            counts[usize::from(fits)] += 1;
            assert_eq!(accepts(&plain, &text), fits, "{name} {text}");
            assert_eq!(accepts(&number, &text), fits, "a number of {name}: {text}");
            let whole = text.ends_with(".0") && reads(text.trim_end_matches(".0"));
            assert_eq!(accepts(&others, &text), !fits && !whole, "not {name}: {text}");
        }
        assert!(counts.iter().all(|&n| n > 5), "{name} {counts:?}");
    }
}

#[test]
fn floats_do_not_overflow() {
    let schemas = Schemas::new();
    let mut random = Random::new(4);
    for digits in [1, 8, 20, 38, 39, 200, 255] {
        let policy = Policy { exponent: true, max_integer_digits: digits, ..Policy::default() };
        let read = |name: &str| {
            schemas.compile(&format!(r#"{{"type":"number","format":"{name}"}}"#), &policy).unwrap()
        };
        let (float, double) = (read("float"), read("double"));
        let mut counts = [0; 4];
        for _ in 0..300 {
            let whole: String =
                (0..1 + random.below(digits.into())).map(|_| *random.pick(&['1', '9'])).collect();
            let sign = *random.pick(&["", "+", "-"]);
            let most = *random.pick(&[40, 320, 1000]);
            let text = match random.below(3) {
                0 => whole,
                _ => format!("{whole}e{sign}{}", random.below(most)),
            };
            for (grammar, finite, at) in [
                (&float, text.parse::<f32>().unwrap().is_finite(), 0),
                (&double, text.parse::<f64>().unwrap().is_finite(), 2),
            ] {
                let found = accepts(grammar, &text);
                assert!(finite || !found, "{text} overflows");
                counts[at + usize::from(found)] += 1;
            }
        }
        assert!(
            counts.iter().enumerate().all(|(i, &n)| n > 5 || i == 2 && digits > 200),
            "{digits} {counts:?}"
        );
        assert!(accepts(&double, "1e30") && accepts(&double, "9e-999"));
        assert_eq!(accepts(&float, "9e18"), digits <= 20);
    }
}
