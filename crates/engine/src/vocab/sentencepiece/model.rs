//! Reads the file of a SentencePiece model, `tokenizer.model`.
//!
//! The file is a message of Protocol Buffers. Only the fields that determine the tokens are read,
//! the others are skipped.
//!
//! # Cost
//!
//! One pass over the file.
//!
//! # Alternatives considered
//!
//! A library for Protocol Buffers was rejected: it needs the schema of the message and code made
//! from it, for ten fields.

use crate::error::{Error, ErrorKind, Result};

/// Number of pieces, with room above the largest vocabularies in use.
const MAX_PIECES: usize = 1 << 22;

/// The type of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    Normal,
    /// Stands for unknown text.
    Unknown,
    /// Never text.
    Control,
    /// Text that is a token wherever it occurs.
    UserDefined,
    Unused,
    /// One byte, written as `<0x0A>`.
    Byte,
}

/// The algorithm that cuts a text into pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Unigram,
    Bpe,
    /// Words, characters, or one that is not known.
    Other,
}

/// The content of a model file.
#[derive(Debug)]
pub(super) struct Model {
    pub pieces: Vec<(String, f64, PieceKind)>,
    pub algorithm: Algorithm,
    pub byte_fallback: bool,
    /// True if the space that stands for the start of a text is put at its end.
    pub space_at_end: bool,
    pub bos: i64,
    pub eos: i64,
    /// Table by which characters are replaced; empty if there is none.
    pub characters: Vec<u8>,
    /// True if a space is put in front of a text.
    pub dummy_prefix: bool,
}

/// The value of a field.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Float(f32),
    /// Of a type that none of the fields read here has.
    Other,
}

/// Calls `take` with the number and the value of each field of a message.
fn fields<'a>(mut message: &'a [u8], mut take: impl FnMut(u64, Field<'a>) -> Result<()>) -> Result<()> {
    while !message.is_empty() {
        let key = number(&mut message)?;
        let value = match key & 7 {
            0 => Field::Number(number(&mut message)?),
            1 => bytes(&mut message, 8).map(|_| Field::Other)?,
            2 => {
                let len = number(&mut message)?;
                Field::Bytes(bytes(&mut message, len)?)
            }
            5 => {
                let four = bytes(&mut message, 4)?;
                Field::Float(four.try_into().map_or(0.0, f32::from_le_bytes))
            }
            _ => return Err(fault("a field has an unknown type")),
        };
        take(key >> 3, value)?;
    }
    Ok(())
}

fn number(message: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first().ok_or_else(cut_off)?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(fault("a number has too many bytes"))
}

fn bytes<'a>(message: &mut &'a [u8], len: u64) -> Result<&'a [u8]> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let (taken, rest) = message.split_at_checked(len).ok_or_else(cut_off)?;
    *message = rest;
    Ok(taken)
}

/// Reads a model file.
///
/// # Errors
/// Fails if the bytes are not a message with pieces.
pub(super) fn read(file: &[u8]) -> Result<Model> {
    let mut model = Model {
        pieces: Vec::new(),
        algorithm: Algorithm::Unigram,
        byte_fallback: false,
        space_at_end: false,
        bos: 1,
        eos: 2,
        characters: Vec::new(),
        dummy_prefix: true,
    };
    fields(file, |field, value| match (field, value) {
        (1, Field::Bytes(message)) if model.pieces.len() < MAX_PIECES => {
            model.pieces.push(piece(message)?);
            Ok(())
        }
        (1, _) => Err(fault("the pieces are too many, or not messages")),
        (2, Field::Bytes(trainer)) => read_trainer(trainer, &mut model),
        (3, Field::Bytes(normalizer)) => read_normalizer(normalizer, &mut model),
        _ => Ok(()),
    })?;
    if model.pieces.is_empty() {
        return Err(fault("there are no pieces"));
    }
    Ok(model)
}

fn piece(message: &[u8]) -> Result<(String, f64, PieceKind)> {
    let (mut text, mut score, mut kind) = (String::new(), 0.0, PieceKind::Normal);
    fields(message, |field, value| {
        match (field, value) {
            (1, Field::Bytes(bytes)) => {
                text = std::str::from_utf8(bytes).map_err(|_| fault("a piece is not UTF-8"))?.to_owned();
            }
            (2, Field::Float(value)) => score = f64::from(value),
            (3, Field::Number(number)) => {
                kind = match number {
                    1 => PieceKind::Normal,
                    2 => PieceKind::Unknown,
                    3 => PieceKind::Control,
                    4 => PieceKind::UserDefined,
                    5 => PieceKind::Unused,
                    6 => PieceKind::Byte,
                    other => return Err(fault(format!("a piece has the type {other}; 1 to 6 are known"))),
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((text, score, kind))
}

fn read_trainer(message: &[u8], model: &mut Model) -> Result<()> {
    fields(message, |field, value| {
        let Field::Number(number) = value else { return Ok(()) };
        match field {
            3 => {
                model.algorithm = match number {
                    1 => Algorithm::Unigram,
                    2 => Algorithm::Bpe,
                    _ => Algorithm::Other,
                }
            }
            24 => model.space_at_end = number != 0,
            35 => model.byte_fallback = number != 0,
            41 => model.bos = number as i64,
            42 => model.eos = number as i64,
            _ => {}
        }
        Ok(())
    })
}

fn read_normalizer(message: &[u8], model: &mut Model) -> Result<()> {
    fields(message, |field, value| {
        match (field, value) {
            (2, Field::Bytes(table)) => model.characters = table.to_vec(),
            (3, Field::Number(number)) => model.dummy_prefix = number != 0,
            _ => {}
        }
        Ok(())
    })
}

fn cut_off() -> Error {
    fault("the file ends in the middle")
}

fn fault(message: impl Into<String>) -> Error {
    let message = format!("not a SentencePiece model: {}", message.into());
    Error::new(ErrorKind::Tokenizer, message).hint("a file `tokenizer.model` is expected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_model_is_an_error() {
        let texts: [&[u8]; 7] =
            [b"", b"abc", b"\x0a", b"\x0a\x05ab", b"\x0a\x02\x0a\xff", b"\x08\x01", &[0xff; 40]];
        for text in texts {
            assert_eq!(read(text).unwrap_err().kind(), ErrorKind::Tokenizer, "{text:?}");
        }
        let (text, score, kind) =
            read(b"\x0a\x0a\x0a\x01a\x15\0\0\x80\x3f\x18\x06").unwrap().pieces.remove(0);
        assert_eq!((text.as_str(), score, kind), ("a", 1.0, PieceKind::Byte));
    }
}
