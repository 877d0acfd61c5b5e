//! Languages of JSON Schema's `format` names, such as `date-time`, `email` and `uri`.
//!
//! Each language is built from a few nodes or an anchored pattern. It has some hundred byte states;
//! `idn-email` and `regex` have up to two thousand. No text is accepted that the standard forbids.
//! Names of type generators are known, too: `ip` (either version), `partial-time` and
//! `partial-date-time` (without an offset), and those that pydantic writes, such as `uuid4`, `base64`
//! and `ipv4network`.
//!
//! Where the standard allows more than is sensible to generate, a subset is taken:
//!
//! | format | left out |
//! |---|---|
//! | `date` | nothing: leap years and month lengths are exact (RFC 3339, years 0000 to 9999) |
//! | `time`, `date-time` | more than nine digits of fraction; a leap second except `23:59:60Z`; lower-case `t`, `z` |
//! | `partial-time`, `partial-date-time` | more than nine digits of fraction; leap seconds; lower-case `t` |
//! | `duration` | numbers of more than nine digits |
//! | `email` | quoted local parts, address literals, local parts with more than three dots or long parts between them |
//! | `hostname` | labels with `--` as third and fourth character (and so A-labels); names of more than three labels that have one above 31 characters; more than seven labels |
//! | `idn-email` | as `email`; local parts with characters beyond ASCII have at most sixteen characters and no dots; domains as `idn-hostname` |
//! | `idn-hostname` | as `hostname`; labels beyond ASCII have at most twelve characters, of `a` to `z`, digits, `ß` to `ÿ`, in names of at most four labels |
//! | `ipv4` | nothing |
//! | `ipv6` | nothing except zone identifiers, which the standard excludes |
//! | `uuid` | nothing: any version, either case |
//! | `uuid1` to `uuid8` | variants other than that of RFC 9562 |
//! | `ipv4network`, `ipv6network`, `ipvanynetwork` | prefixes other than 8, 16, 24 and 32, or 32, 48, 64 and 128, with zeros after them; masks |
//! | `uri`, `uri-reference` | IP literals in brackets, ports of more than five digits |
//! | `iri`, `iri-reference` | the same; characters beyond U+FFFF except U+10000 to U+3FFFD and private ones |
//! | `uri-template` | the operators that RFC 6570 reserves (`=`, `,`, `!`, `@`, `\|`) |
//! | `json-pointer` | nothing |
//! | `relative-json-pointer` | prefixes of more than nine digits |
//! | `regex` | group names; backreferences; lookbehind; flags; `\0`; properties except the general categories; ranges in classes except those of digits and of letters at an end of the alphabet; two-digit bounds of a repetition that begin alike; groups more than three deep |
//!
//! # Alternatives considered
//!
//! Checking a format after the fact was rejected: a constraint must not let a text begin that
//! cannot end.

use std::sync::OnceLock;

use super::ecma;
use super::ir::{Ir, Node, NodeId};
use crate::char_lang::char_class::ANY_CHAR;
use crate::constraint::regular::utf8_class;

/// Returns the decoded texts that `name` describes, or `None` for unknown names. The caller reports
/// unknown names and otherwise ignores them, as the standard says.
pub(crate) fn language(name: &str, ir: &mut Ir) -> Option<NodeId> {
    static MADE: [OnceLock<Ir>; FORMATS.len()] = [const { OnceLock::new() }; FORMATS.len()];
    let at = NAMES.iter().position(|&n| n == name)?;
    let make = || {
        let mut own = Ir::new();
        let root = FORMATS[at].1(&mut own);
        own.set_root(root);
        own
    };
    Some(ir.append(MADE[at].get_or_init(make)))
}

/// Returns a language that holds every text that `name` describes and perhaps more. It serves
/// negation: a text outside of it is certainly not of the format. Returns `None` if [`language`]
/// leaves nothing out or does not know the name.
pub(crate) fn superset(name: &str, ir: &mut Ir) -> Option<NodeId> {
    Some(pattern(
        match name {
            "time" => "^[0-9:.+-]+[zZ]?$",
            "partial-time" => "^[0-9:.]+$",
            "partial-date-time" => "^[0-9-]+[^0-9-][0-9:.]+$",
            "date-time" => "^[0-9:.+-]+[^0-9:.+-][0-9:.+-]+[zZ]?$",
            "duration" => "^[pP][0-9a-zA-Z]+$",
            "email" => r#"^(?:[!-~][!#-'*+./0-9=?A-Z^-~-]*|"[^]*")@[!-~]+$"#,
            "idn-email" => r#"^(?:[^\0- "(),:;<>@\[-\]]+|"[^]*")@[^\0- ]+$"#,
            "hostname" => "^[a-zA-Z0-9.-]+$",
            "idn-hostname" => r"^[^\0- ]+$",
            "uri" => "^[a-zA-Z][a-zA-Z0-9+.-]*:[!-~]*$",
            "uri-reference" => "^[!-~]*$",
            "iri" => r"^[a-zA-Z][a-zA-Z0-9+.-]*:[^\0- ]*$",
            "iri-reference" | "uri-template" => r"^[^\0- ]*$",
            "relative-json-pointer" => "^[0-9]+(?:#|/[^]*)?$",
            "regex" | "name-email" | "ipv4network" | "ipv6network" | "ipvanynetwork" => "^[^]*$",
            version if version.len() == 5 && version.starts_with("uuid") => "^[^]*$",
            _ => return None,
        },
        ir,
    ))
}

/// Builds the language of a format.
type Build = fn(&mut Ir) -> NodeId;

/// The formats by name, each with its builder. Their languages are cached, because parsing a pattern
/// takes longer than copying its nodes.
const FORMATS: [(&str, Build); 40] = [
    ("date", date),
    ("time", time),
    ("date-time", |ir| joined(ir, [date, |ir| ir.bytes("T"), time])),
    ("duration", duration),
    ("email", email),
    ("idn-email", idn_email),
    ("hostname", |ir| pattern(&format!("^{}$", hostname_pattern()), ir)),
    ("idn-hostname", |ir| pattern(&format!("^{}$", idn_hostname_pattern()), ir)),
    ("ipv4", ipv4),
    ("ipv6", ipv6),
    ("uuid", |ir| pattern("^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", ir)),
    ("uri", |ir| uri(ir, true, ("", ""))),
    ("uri-reference", |ir| uri(ir, false, ("", ""))),
    ("iri", |ir| uri(ir, true, (UCSCHAR, IPRIVATE))),
    ("iri-reference", |ir| uri(ir, false, (UCSCHAR, IPRIVATE))),
    ("uri-template", uri_template),
    ("json-pointer", json_pointer),
    ("relative-json-pointer", relative_json_pointer),
    ("regex", |ir| pattern(&format!("^{}$", regex::pattern()), ir)),
    ("ip", ip),
    ("partial-time", partial_time),
    ("partial-date-time", |ir| joined(ir, [date, |ir| ir.bytes("T"), partial_time])),
    ("uuid1", |ir| uuid(ir, 1)),
    ("uuid2", |ir| uuid(ir, 2)),
    ("uuid3", |ir| uuid(ir, 3)),
    ("uuid4", |ir| uuid(ir, 4)),
    ("uuid5", |ir| uuid(ir, 5)),
    ("uuid6", |ir| uuid(ir, 6)),
    ("uuid7", |ir| uuid(ir, 7)),
    ("uuid8", |ir| uuid(ir, 8)),
    ("base64", |ir| base64(ir, "+/")),
    ("base64url", |ir| base64(ir, "_-")),
    ("name-email", email),
    ("ipvanyaddress", ip),
    ("ipv4interface", |ir| pattern(&format!("^{}$", interface(4)), ir)),
    ("ipv6interface", |ir| pattern(&format!("^{}$", interface(6)), ir)),
    ("ipvanyinterface", |ir| pattern(&format!("^(?:{}|{})$", interface(4), interface(6)), ir)),
    ("ipv4network", |ir| pattern(&format!("^(?:{})$", network(4)), ir)),
    ("ipv6network", |ir| pattern(&format!("^(?:{})$", network(6)), ir)),
    ("ipvanynetwork", |ir| pattern(&format!("^(?:{}|{})$", network(4), network(6)), ir)),
];

/// Formats of type generators that any text has.
pub(super) const ANNOTATIONS: [&str; 8] =
    ["binary", "byte", "color", "directory-path", "file-path", "json-string", "password", "path"];

/// The names of the formats.
pub(super) const NAMES: [&str; FORMATS.len()] = {
    let mut names = [""; FORMATS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = FORMATS[at].0;
        at += 1;
    }
    names
};

fn joined(ir: &mut Ir, parts: [Build; 3]) -> NodeId {
    let parts = parts.map(|part| part(ir));
    ir.concat(&parts[..])
}

/// Parses a pattern of this module. The tests parse each of them, so a failure cannot occur.
fn pattern(text: &str, ir: &mut Ir) -> NodeId {
    ecma::parse(text, ir).unwrap_or_else(|_| ir.push(Node::Never))
}

fn date(ir: &mut Ir) -> NodeId {
    // Leap years: divisible by 4 and not by 100, or by 400.
    const FOURTH: &str = "(?:0[48]|[2468][048]|[13579][26])";
    let leap = format!("(?:[0-9]{{2}}{FOURTH}|(?:00|{FOURTH})00)");
    let long = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])";
    let short = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)";
    let february = "02-(?:0[1-9]|1[0-9]|2[0-8])";
    pattern(&format!("^(?:[0-9]{{4}}-(?:{long}|{short}|{february})|{leap}-02-29)$"), ir)
}

fn partial_time(ir: &mut Ir) -> NodeId {
    pattern(r"^(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?$", ir)
}

fn time(ir: &mut Ir) -> NodeId {
    // An offset that moves a leap second to 23:59 UTC is legal, too, but not useful to generate.
    const FRACTION: &str = r"(?:\.[0-9]{1,9})?";
    const OFFSET: &str = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
    let usual = format!("(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]{FRACTION}{OFFSET}");
    pattern(&format!("^(?:{usual}|23:59:60{FRACTION}Z)$"), ir)
}

/// RFC 3339, appendix A: units in order and without gaps, weeks alone.
fn duration(ir: &mut Ir) -> NodeId {
    const N: &str = "[0-9]{1,9}";
    let day = format!("{N}D");
    let month = format!("{N}M(?:{day})?");
    let year = format!("{N}Y(?:{month})?");
    let second = format!("{N}S");
    let minute = format!("{N}M(?:{second})?");
    let hour = format!("{N}H(?:{minute})?");
    let time = format!("T(?:{hour}|{minute}|{second})");
    pattern(&format!("^P(?:(?:{year}|{month}|{day})(?:{time})?|{time}|{N}W)$"), ir)
}

/// Returns a pattern for a label of at most `longest` (at least 5) letters, digits and inner
/// hyphens. The third and fourth character are never both hyphens.
fn label(longest: u32) -> String {
    const END: &str = "[a-zA-Z0-9]";
    const ANY: &str = "[a-zA-Z0-9-]";
    // Up to four characters, the last not a hyphen; or two, then two that are not both hyphens.
    let short = format!("{ANY}{{0,2}}{END}");
    let long = format!("{ANY}(?:{END}{ANY}|-{END}){ANY}{{0,{}}}{END}", longest - 5);
    format!("{END}(?:{short}|{long})?")
}

/// Returns a pattern for names of at most 253 characters, as alternatives without anchors.
fn hostname_pattern() -> String {
    let (long, short) = (label(63), label(31));
    // 3 * 63 + 2 and 7 * 31 + 6 characters.
    format!(r"(?:{long}(?:\.{long}){{0,2}}|(?:{short}\.){{3,6}}{short})")
}

/// Returns a pattern for host names with labels beyond ASCII. These labels use lower-case letters
/// of Western Europe: RFC 5892 allows all of them, and Unicode writes each in one way. A character
/// adds at most four to the label's ASCII form, so twelve make at most 53.
fn idn_hostname_pattern() -> String {
    let any = format!(r"(?:{}|[a-z0-9\u{{DF}}-\u{{F6}}\u{{F8}}-\u{{FF}}]{{1,12}})", label(31));
    format!(r"(?:{}|(?:{any}\.){{0,3}}{any})", hostname_pattern())
}

const ATEXT: &str = "a-zA-Z0-9!#$%&'*+/=?^_`{|}~-";

/// Returns a pattern for the part before the `@`, at most 64 characters: one part, or two to four
/// shorter ones.
fn local_part() -> String {
    format!(
        r"(?:[{ATEXT}]{{1,64}}|[{ATEXT}]{{1,31}}\.[{ATEXT}]{{1,31}}|(?:[{ATEXT}]{{1,15}}\.){{2,3}}[{ATEXT}]{{1,15}})"
    )
}

fn email(ir: &mut Ir) -> NodeId {
    pattern(&format!("^{}@{}$", local_part(), hostname_pattern()), ir)
}

/// RFC 6531: sixteen characters have at most 64 bytes.
fn idn_email(ir: &mut Ir) -> NodeId {
    let wide = format!(r"[\u{{80}}-\u{{10FFFF}}{ATEXT}]{{1,16}}");
    pattern(&format!("^(?:{}|{wide})@{}$", local_part(), idn_hostname_pattern()), ir)
}

const OCTET: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";

fn ipv4_pattern() -> String {
    format!(r"{OCTET}(?:\.{OCTET}){{3}}")
}

fn ipv4(ir: &mut Ir) -> NodeId {
    pattern(&format!("^{}$", ipv4_pattern()), ir)
}

const HEX: &str = "[0-9a-fA-F]";
/// A group of an address of version 6.
const H: &str = "[0-9a-fA-F]{1,4}";

/// RFC 4291: eight groups, optionally the last two as IPv4 and one run of zero groups as `::`.
fn ipv6_pattern() -> String {
    let last = format!("(?:{H}:{H}|{})", ipv4_pattern());
    let mut forms = vec![format!("(?:{H}:){{6}}{last}")];
    for before in 0..=7u32 {
        let head = match before {
            0 => String::new(),
            1 => H.to_owned(),
            n => format!("(?:{H}:){{{}}}{H}", n - 1),
        };
        // `::` replaces at least one group, so at most `room` groups follow it.
        let room = 7 - before;
        let tail = match room {
            0 => String::new(),
            1 => format!("(?:{H})?"),
            2 => format!("(?:{H}|{last})?"),
            n => format!("(?:{H}|(?:{H}:){{0,{}}}{last})?", n - 2),
        };
        forms.push(format!("{head}::{tail}"));
    }
    format!("(?:{})", forms.join("|"))
}

fn ipv6(ir: &mut Ir) -> NodeId {
    pattern(&format!("^{}$", ipv6_pattern()), ir)
}

fn ip(ir: &mut Ir) -> NodeId {
    let versions = vec![ipv4(ir), ipv6(ir)];
    ir.union(versions)
}

/// Returns a pattern for addresses, perhaps with the length of the prefix of their network.
fn interface(version: u8) -> String {
    match version {
        4 => format!("{}(?:/(?:3[0-2]|[12]?[0-9]))?", ipv4_pattern()),
        _ => format!("{}(?:/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))?", ipv6_pattern()),
    }
}

/// Returns alternatives for networks of the usual prefixes, with zeros after them.
fn network(version: u8) -> String {
    match version {
        4 => format!(
            r"{}(?:/32)?|(?:{OCTET}\.){{3}}0/24|(?:{OCTET}\.){{2}}0\.0/16|{OCTET}\.0\.0\.0/8",
            ipv4_pattern()
        ),
        _ => {
            format!("{}(?:/128)?|(?:{H}:){{1,4}}:/64|(?:{H}:){{1,3}}:/48|(?:{H}:){{1,2}}:/32", ipv6_pattern())
        }
    }
}

fn uuid(ir: &mut Ir, version: u8) -> NodeId {
    pattern(&format!("^{HEX}{{8}}-{HEX}{{4}}-{version}{HEX}{{3}}-[89abAB]{HEX}{{3}}-{HEX}{{12}}$"), ir)
}

/// RFC 4648, with padding; `more` are the last two characters of the alphabet.
fn base64(ir: &mut Ir, more: &str) -> NodeId {
    let c = format!("[A-Za-z0-9{more}]");
    pattern(&format!("^(?:{c}{{4}})*(?:{c}[AQgw]==|{c}{{2}}[AEIMQUYcgkosw048]=)?$"), ir)
}

const PERCENT: &str = "%[0-9a-fA-F]{2}";
/// `ucschar` of RFC 3987, except planes without characters.
const UCSCHAR: &str = concat!(
    r"\u{A0}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}",
    r"\u{10000}-\u{1FFFD}\u{20000}-\u{2FFFD}\u{30000}-\u{3FFFD}"
);
/// `iprivate` of RFC 3987, which queries may hold.
const IPRIVATE: &str = r"\u{E000}-\u{F8FF}\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}";

/// RFC 3986: a URI if `absolute`, otherwise a URI or a relative reference. With the further
/// characters `wide` anywhere and `private` in queries, an IRI (RFC 3987).
fn uri(ir: &mut Ir, absolute: bool, (wide, private): (&str, &str)) -> NodeId {
    // Unreserved characters and sub-delimiters, without brackets so that more can be added.
    const NAME: &str = "a-zA-Z0-9._~!$&'()*+,;=-";
    let run = |extra: &str, count: &str| format!("(?:[{extra}{wide}{NAME}]|{PERCENT}){count}");
    let authority = format!("//(?:{}@)?{}(?::[0-9]{{0,5}})?", run(":", "*"), run("", "*"));
    let segments = format!("(?:/{})*", run(":@", "*"));
    let rooted = format!("/(?:{}{segments})?", run(":@", "+"));
    let rootless = format!("{}{segments}", run(":@", "+"));
    // The first segment of a relative path has no colon, or it would read as a scheme.
    let noscheme = format!("{}{segments}", run("@", "+"));
    let query = run(&format!(":@/?{private}"), "*");
    let tail = format!(r"(?:\?{query})?(?:#{})?", run(":@/?", "*"));
    let full = format!("[a-zA-Z][a-zA-Z0-9+.-]*:(?:{authority}{segments}|{rooted}|{rootless})?");
    let relative = format!("(?:{authority}{segments}|{rooted}|{noscheme})?");
    let head = if absolute { full } else { format!("(?:{full}|{relative})") };
    pattern(&format!("^{head}{tail}$"), ir)
}

/// RFC 6570: literal text and expressions in braces. The apostrophe is literal by an erratum.
fn uri_template(ir: &mut Ir) -> NodeId {
    let literal = format!("(?:[!#$&'()*+,./0-9:;=?@A-Z\\[\\]_a-z~{UCSCHAR}{IPRIVATE}-]|{PERCENT})");
    let name = format!("(?:[a-zA-Z0-9_]|{PERCENT})");
    let variable = format!(r"{name}(?:\.?{name})*(?::[1-9][0-9]{{0,3}}|\*)?");
    let expression = format!(r"\{{[+#./;?&]?{variable}(?:,{variable})*\}}");
    pattern(&format!("^(?:{literal}|{expression})*$"), ir)
}

/// RFC 6901: any number of reference tokens, each after a slash.
fn json_pointer(ir: &mut Ir) -> NodeId {
    let plain = utf8_class::class(&[(ANY_CHAR.0, '.'), ('0', '}'), ('\u{7f}', ANY_CHAR.1)], ir);
    let escaped = pattern("^~[01]$", ir);
    let character = ir.union(vec![plain, escaped]);
    let token = ir.repeat(character, 0, None);
    let slash = ir.bytes("/");
    let step = ir.concat(vec![slash, token]);
    ir.repeat(step, 0, None)
}

fn relative_json_pointer(ir: &mut Ir) -> NodeId {
    let prefix = pattern("^(?:0|[1-9][0-9]{0,8})$", ir);
    let pointer = json_pointer(ir);
    let name = ir.bytes("#");
    let rest = ir.union(vec![pointer, name]);
    ir.concat(vec![prefix, rest])
}

mod regex;
#[cfg(test)]
mod tests;
