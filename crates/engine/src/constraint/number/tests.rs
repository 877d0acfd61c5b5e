use super::*;
use crate::constraint::regular::hir_to_ir::states;
use crate::constraint::test_reference::{matches, member};
use ffwd_testkit::random::Random;

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// Builds a specification from bounds as text; `(` and `)` mark exclusive ones.
fn spec(integer: bool, minimum: &str, maximum: &str, scale: Option<u32>) -> NumberSpec {
    let bound = |text: &str| {
        let digits = text.trim_matches(['(', ')']);
        (!digits.is_empty()).then(|| (decimal(digits), digits.len() < text.len()))
    };
    NumberSpec {
        integer,
        zeros: false,
        minimum: bound(minimum),
        maximum: bound(maximum),
        scale,
        max_exponent: None,
    }
}

/// Obvious check of a text against specification and policy.
fn allowed(text: &str, spec: &NumberSpec, policy: &Policy) -> bool {
    let Ok(value) = Decimal::parse(text) else { return false };
    let magnitude = text.trim_start_matches('-');
    let (mantissa, exponent) =
        magnitude.split_once(['e', 'E']).map_or((magnitude, None), |(m, e)| (m, Some(e)));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let free = spec.minimum.is_none() && spec.maximum.is_none() && spec.scale.is_none() && !spec.integer;
    let zeros = spec.zeros && fraction.bytes().all(|b| b == b'0');
    let fraction_cap = match spec.integer {
        true if zeros => u32::MAX,
        true => 0,
        false => spec.scale.unwrap_or(u32::MAX),
    };
    integer.len() <= usize::from(policy.max_integer_digits)
        && fraction.len() <= usize::from(policy.max_fraction_digits).min(fraction_cap as usize)
        && exponent.is_none_or(|e| free && policy.exponent && e.trim_start_matches(['+', '-']).len() <= 3)
        && !(spec.integer && text.starts_with('-') && value == decimal("0"))
        && spec.minimum.as_ref().is_none_or(|(b, exclusive)| value > *b || (!exclusive && value == *b))
        && spec.maximum.as_ref().is_none_or(|(b, exclusive)| value < *b || (!exclusive && value == *b))
}

fn policy(integer: u8, fraction: u8) -> Policy {
    Policy { max_integer_digits: integer, max_fraction_digits: fraction, ..Policy::default() }
}

fn build(spec: &NumberSpec, policy: &Policy) -> (Ir, NodeId) {
    let mut ir = Ir::new();
    let root = number(spec, policy, &mut ir).unwrap();
    (ir, root)
}

/// Returns every text with few digits.
fn small_texts() -> Vec<String> {
    let mut magnitudes: Vec<String> = Vec::new();
    for n in 0..1200u32 {
        magnitudes.push(n.to_string());
    }
    for n in 0..130u32 {
        for width in 1..=3 {
            for f in 0..10u32.pow(width) {
                if n < 3 || f % 7 == 0 || f < 4 || n % 10 == 9 {
                    magnitudes.push(format!("{n}.{f:0width$}", width = width as usize));
                }
            }
        }
    }
    magnitudes.extend(
        ["00", "01", "1.", ".5", "", "1e5", "1E+05", "2.5e-123", "1e1234", "+1", "0x1"].map(String::from),
    );
    magnitudes.iter().flat_map(|m| [m.clone(), format!("-{m}")]).collect()
}

#[test]
fn agrees_with_exact_comparison_on_all_small_texts() {
    let texts = small_texts();
    let bounds = "| 0| |0 (0| |0) 0|0 (0|0 0|100 1|12 -5|17 (-5|17) 0.5|0.75 (0.5|0.75) -0.5|0.25 2.25|2.25 \
        (2.25|2.25 99.5|101.05 -101.05|-99.5 5|3 100|5 0.4|0.3 9|10 (9|10) 9.99|10.01 12345| |-12345 \
        |12345 1e-9|1e9 (0.12|0.123 0.1234|0.1235 0.12345|0.125) 1.20|1.3 123|129 199|1000 0.001| \
        |0.001) -0|-0.0";
    let bounds = bounds.split_whitespace().map(|pair| pair.split_once('|').unwrap());
    let mut counts = [0usize; 2];
    for (min, max) in bounds {
        for (integer, scale) in [(false, None), (true, None), (false, Some(2)), (false, Some(0))] {
            for policy in [policy(20, 20), policy(3, 2), policy(4, 0)] {
                let spec = spec(integer, min, max, scale);
                let (ir, root) = build(&spec, &policy);
                // All texts for the plain cases, a sample for the others.
                let stride = if scale.is_none() && policy.max_integer_digits == 20 { 1 } else { 5 };
                for text in texts.iter().step_by(stride) {
                    let expected = allowed(text, &spec, &policy);
                    counts[usize::from(expected)] += 1;
                    assert_eq!(
                        matches(&ir, root, text.as_bytes()),
                        expected,
                        "{text} for {spec:?} {policy:?}"
                    );
                }
            }
        }
    }
    assert!(counts[0] > 50_000 && counts[1] > 20_000, "{counts:?}");
}

/// Returns a random decimal text with up to `digits` digits around the point.
fn random_text(random: &mut Random, digits: usize) -> String {
    let mut run = |n: usize| {
        (0..n).map(|_| random.pick(&['0', '0', '1', '5', '9', '9', '3']).to_string()).collect::<String>()
    };
    let integer = run(1 + digits / 2);
    let fraction = run(digits / 2);
    let (cut, keep) = (random.below(integer.len()), random.below(fraction.len() + 1));
    let integer = integer[cut..].trim_start_matches('0');
    let integer = if integer.is_empty() { "0" } else { integer };
    let sign = random.pick::<&str>(&["", "-"]);
    if keep == 0 { format!("{sign}{integer}") } else { format!("{sign}{integer}.{}", &fraction[..keep]) }
}

/// Returns `text` with one digit changed, dropped or added.
fn nearby(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let at = random.below(bytes.len());
    match random.below(4) {
        0 => bytes.insert(at, b'0' + random.below(10) as u8),
        1 => drop(bytes.remove(at)),
        2 => bytes.push(b'0' + random.below(10) as u8),
        _ if bytes[at].is_ascii_digit() => bytes[at] = b'0' + random.below(10) as u8,
        _ => {}
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn agrees_with_exact_comparison_near_long_bounds() {
    let mut random = Random::new(11);
    let mut counts = [0usize; 2];
    for round in 0..600 {
        let low = random_text(&mut random, 1 + round % 44);
        let high =
            if round % 3 == 0 { nearby(&low, &mut random) } else { random_text(&mut random, 1 + round % 44) };
        let Ok(high_value) = Decimal::parse(&high) else { continue };
        let spec = NumberSpec {
            integer: round % 7 == 0,
            zeros: round % 2 == 0,
            minimum: (round % 5 != 0).then(|| (decimal(&low), round % 2 == 0)),
            maximum: (round % 4 != 0).then_some((high_value, round % 3 == 0)),
            scale: if round % 11 == 0 { Some(3) } else { None },
            max_exponent: None,
        };
        let policy = if round % 6 == 0 { policy(4, 5) } else { Policy::default() };
        let (ir, root) = build(&spec, &policy);
        for _ in 0..60 {
            let text = match random.below(4) {
                0 => nearby(&low, &mut random),
                1 => nearby(&high, &mut random),
                2 => {
                    let n = nearby(&high, &mut random);
                    if n.is_empty() {
                        continue;
                    }
                    nearby(&n, &mut random)
                }
                _ => random.pick(&[low.clone(), high.clone()]).clone(),
            };
            let expected = allowed(&text, &spec, &policy);
            counts[usize::from(expected)] += 1;
            assert_eq!(matches(&ir, root, text.as_bytes()), expected, "{text} for {spec:?} {policy:?}");
        }
        for _ in 0..20 {
            let Some(text) = member(&ir, root, &mut random) else { continue };
            let text = String::from_utf8(text).unwrap();
            assert!(allowed(&text, &spec, &policy), "{text} for {spec:?} {policy:?}");
        }
    }
    assert!(counts[0] > 5_000 && counts[1] > 5_000, "{counts:?}");
}

#[test]
fn unsatisfiable_bounds_leave_nothing() {
    for (integer, min, max) in
        [(false, "5", "3"), (true, "0.2", "0.8"), (true, "(1", "2)"), (false, "(1", "1"), (false, "1e30", "")]
    {
        let (ir, root) = build(&spec(integer, min, max, None), &Policy::default());
        assert_eq!(*ir.node(root), Node::Never, "{min} {max}");
    }
}

#[test]
fn exponents_only_without_bounds() {
    let policy = Policy { exponent: true, ..Policy::default() };
    let accepts = |spec: &NumberSpec, text: &str| {
        let (ir, root) = build(spec, &policy);
        matches(&ir, root, text.as_bytes())
    };
    for text in ["1e5", "-1.5E-300", "0e+1"] {
        assert!(accepts(&NumberSpec::default(), text), "{text}");
        assert!(!accepts(&spec(false, "0", "", None), text), "{text}");
        assert!(!accepts(&spec(true, "", "", None), text), "{text}");
        assert!(!accepts(&spec(false, "", "", Some(2)), text), "{text}");
    }
    for text in ["1e", "e5", "1e1234", "1e5.0", "1ee5"] {
        assert!(!accepts(&NumberSpec::default(), text), "{text}");
    }
}

#[test]
fn automata_stay_small() {
    let size = |spec: &NumberSpec| {
        let (ir, root) = build(spec, &Policy::default());
        states(&ir, 0, root)
    };
    let long = "1234567890123456789.1234567890123456789";
    let sizes = [
        size(&NumberSpec::default()),
        size(&spec(false, "0", "100", None)),
        size(&spec(true, "-9223372036854775808", "9223372036854775807", None)),
        size(&spec(false, &format!("-{long}"), long, None)),
    ];
    assert!(sizes[0] < 60 && sizes[1] < 100 && sizes[2] < 200 && sizes[3] < 300, "{sizes:?}");
}
