//! The number types of weights in files: floats, and blocks of quantised numbers.

use candle_core::quantized::GgmlDType;

use crate::error::{Error, ErrorKind, Result};

/// A type of the numbers of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TensorType {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Iq4Nl,
    Iq4Xs,
}

/// For each type its number in GGUF files, its name, and the weights and the bytes of a block.
const TYPES: [(TensorType, u32, &str, usize, usize); 15] = [
    (TensorType::F32, 0, "F32", 1, 4),
    (TensorType::F16, 1, "F16", 1, 2),
    (TensorType::Bf16, 30, "BF16", 1, 2),
    (TensorType::Q4_0, 2, "Q4_0", 32, 18),
    (TensorType::Q4_1, 3, "Q4_1", 32, 20),
    (TensorType::Q5_0, 6, "Q5_0", 32, 22),
    (TensorType::Q5_1, 7, "Q5_1", 32, 24),
    (TensorType::Q8_0, 8, "Q8_0", 32, 34),
    (TensorType::Q2K, 10, "Q2_K", 256, 84),
    (TensorType::Q3K, 11, "Q3_K", 256, 110),
    (TensorType::Q4K, 12, "Q4_K", 256, 144),
    (TensorType::Q5K, 13, "Q5_K", 256, 176),
    (TensorType::Q6K, 14, "Q6_K", 256, 210),
    (TensorType::Iq4Nl, 20, "IQ4_NL", 32, 18),
    (TensorType::Iq4Xs, 23, "IQ4_XS", 256, 136),
];

/// Types that GGUF files may have and that are not supported.
const UNSUPPORTED: [(u32, &str); 19] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (31, "Q4_0_4_4"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

impl TensorType {
    /// Returns the type with this number in a GGUF file.
    ///
    /// # Errors
    /// `Unsupported`, with the names of the type and of the `tensor`.
    pub fn from_gguf(id: u32, tensor: &str) -> Result<Self> {
        if let Some((found, ..)) = TYPES.iter().find(|t| t.1 == id) {
            return Ok(*found);
        }
        let name = UNSUPPORTED.iter().find(|t| t.0 == id).map(|t| t.1);
        let name = name.map_or_else(|| format!("number {id}"), str::to_owned);
        let known: Vec<&str> = TYPES.iter().map(|t| t.2).collect();
        Err(Error::new(ErrorKind::Unsupported, format!("the tensor `{tensor}` has the type {name}"))
            .hint(format!("take a file with other weights; these types work: {}", known.join(", "))))
    }

    fn entry(self) -> &'static (TensorType, u32, &'static str, usize, usize) {
        // Every type has an entry; a test checks it.
        TYPES.iter().find(|t| t.0 == self).unwrap_or(&TYPES[0])
    }

    /// Returns the name that people use.
    pub fn name(self) -> &'static str {
        self.entry().2
    }

    /// Returns the number of weights of a block.
    pub fn block_weights(self) -> usize {
        self.entry().3
    }

    /// Returns the number of bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.entry().4
    }

    /// Returns the bytes of a tensor of this shape, or `None` if its rows are not whole blocks or
    /// it is too large.
    pub fn bytes(self, shape: &[usize]) -> Option<usize> {
        let elements = shape.iter().try_fold(1usize, |a, d| a.checked_mul(*d))?;
        // A row can be cut out of whole blocks.
        let whole = shape.last()?.is_multiple_of(self.block_weights());
        if whole { (elements / self.block_weights()).checked_mul(self.block_bytes()) } else { None }
    }

    /// Returns candle's name of the type, if it has one.
    pub fn candle(self) -> Option<GgmlDType> {
        Some(match self {
            TensorType::F32 => GgmlDType::F32,
            TensorType::F16 => GgmlDType::F16,
            TensorType::Bf16 => GgmlDType::BF16,
            TensorType::Q4_0 => GgmlDType::Q4_0,
            TensorType::Q4_1 => GgmlDType::Q4_1,
            TensorType::Q5_0 => GgmlDType::Q5_0,
            TensorType::Q5_1 => GgmlDType::Q5_1,
            TensorType::Q8_0 => GgmlDType::Q8_0,
            TensorType::Q2K => GgmlDType::Q2K,
            TensorType::Q3K => GgmlDType::Q3K,
            TensorType::Q4K => GgmlDType::Q4K,
            TensorType::Q5K => GgmlDType::Q5K,
            TensorType::Q6K => GgmlDType::Q6K,
            TensorType::Iq4Nl | TensorType::Iq4Xs => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_candle() {
        for (kind, id, name, weights, bytes) in TYPES {
            assert_eq!(TensorType::from_gguf(id, "w").unwrap(), kind);
            assert_eq!((kind.name(), kind.block_weights(), kind.block_bytes()), (name, weights, bytes));
            if let Some(candle) = kind.candle() {
                assert_eq!((candle.block_size(), candle.type_size()), (weights, bytes), "{name}");
            }
        }
    }

    #[test]
    fn other_types_are_named() {
        for (id, name) in UNSUPPORTED {
            let error = TensorType::from_gguf(id, "blk.0.ffn_up.weight").unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("blk.0.ffn_up.weight"), "{error}");
        }
        assert!(TensorType::from_gguf(4711, "w").unwrap_err().to_string().contains("4711"));
    }
}
