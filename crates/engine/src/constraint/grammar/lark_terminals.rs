//! The terminals that Lark grammars can import from `common`, as regular expressions.
//!
//! Each pattern describes the same characters as in Lark's library.
//!
//! # Cost
//! Importing a terminal costs the parsing of a few dozen bytes.
//!
//! # Alternatives considered
//! A library file in Lark notation was rejected: its names would have to be kept apart from those
//! of the grammar.

/// Returns the pattern of an importable terminal.
pub(super) fn pattern(name: &str) -> Option<&'static str> {
    Some(match name {
        "DIGIT" => "[0-9]",
        "HEXDIGIT" => "[a-fA-F0-9]",
        "INT" => "[0-9]+",
        "SIGNED_INT" => "[+-]?[0-9]+",
        "DECIMAL" => r"[0-9]+\.[0-9]*|\.[0-9]+",
        "FLOAT" => r"[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
        "SIGNED_FLOAT" => r"[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)",
        "NUMBER" => r"[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
        "SIGNED_NUMBER" => r"[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)",
        "UCASE_LETTER" => "[A-Z]",
        "LCASE_LETTER" => "[a-z]",
        "LETTER" => "[A-Za-z]",
        "WORD" => "[A-Za-z]+",
        "CNAME" => "[_A-Za-z][_A-Za-z0-9]*",
        "WS_INLINE" => r"[ \t]+",
        "WS" => r"[ \t\f\r\n]+",
        "CR" => r"\r",
        "LF" => r"\n",
        "NEWLINE" => r"(\r?\n)+",
        // Quotes inside are escaped; a backslash before the closing quote would escape it.
        "ESCAPED_STRING" => r#""([^"\\\n]|\\[^\n])*""#,
        _ => return None,
    })
}

/// All names, for hints.
pub(super) const NAMES: &str = "INT, SIGNED_INT, DECIMAL, FLOAT, SIGNED_FLOAT, NUMBER, SIGNED_NUMBER, DIGIT, HEXDIGIT, \
                                LETTER, UCASE_LETTER, LCASE_LETTER, WORD, CNAME, WS, WS_INLINE, CR, LF, NEWLINE, \
                                ESCAPED_STRING";
