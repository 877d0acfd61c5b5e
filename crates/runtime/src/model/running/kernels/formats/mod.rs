//! Block formats of quantised weights: one file per format, behind one trait.
//!
//! A format in a file is a sequence of blocks along the inputs of an output. In memory the blocks of
//! sixteen outputs become a tile: its parts of 32 inputs follow each other, and in a part the
//! weights of the outputs are interleaved by fours, so that an instruction multiplies four inputs of
//! sixteen outputs. Quantised values and scales keep their bits, so a tile takes about the memory of
//! its blocks. Products unpack the weights in registers.
//!
//! Each weight is `(value - OFFSET) * scale - minimum`, with a scale and a minimum for each 32 or 16
//! inputs of an output.
//!
//! # Cost
//!
//! Unpacking takes few instructions for the 512 weights of a part, whatever the number of rows.
//!
//! # Alternatives considered
//!
//! - Products on the blocks as they are in the file were rejected: an instruction would work on one
//!   output, and its sums would have to be added across lanes.
//! - Scales widened to single precision were rejected: a product for few rows takes the time to read
//!   its matrix, and they are up to a third of it.
//! - Weights widened to 8 bits were rejected for the same reason.

mod block_format;
pub(crate) mod iq4_nl;
pub(crate) mod iq4_xs;
pub(crate) mod q2_k;
pub(crate) mod q3_k;
pub(crate) mod q4_0;
pub(crate) mod q4_1;
pub(crate) mod q4_k;
pub(crate) mod q5_0;
pub(crate) mod q5_1;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8_0;

pub(crate) use block_format::{BlockFormat, GROUP};

/// Hands all formats to a macro: for each its type, its number and its name in GGUF files, and its
/// type in candle, if it has one. A new format is a module and a line here.
macro_rules! formats {
    ($to:ident) => {
        $to! {
            q4_0::Q4_0 = 2, "Q4_0", Some(GgmlDType::Q4_0);
            q4_1::Q4_1 = 3, "Q4_1", Some(GgmlDType::Q4_1);
            q5_0::Q5_0 = 6, "Q5_0", Some(GgmlDType::Q5_0);
            q5_1::Q5_1 = 7, "Q5_1", Some(GgmlDType::Q5_1);
            q8_0::Q8_0 = 8, "Q8_0", Some(GgmlDType::Q8_0);
            q2_k::Q2K = 10, "Q2_K", Some(GgmlDType::Q2K);
            q3_k::Q3K = 11, "Q3_K", Some(GgmlDType::Q3K);
            q4_k::Q4K = 12, "Q4_K", Some(GgmlDType::Q4K);
            q5_k::Q5K = 13, "Q5_K", Some(GgmlDType::Q5K);
            q6_k::Q6K = 14, "Q6_K", Some(GgmlDType::Q6K);
            iq4_nl::Iq4Nl = 20, "IQ4_NL", None;
            iq4_xs::Iq4Xs = 23, "IQ4_XS", None;
        }
    };
}
pub(crate) use formats;
