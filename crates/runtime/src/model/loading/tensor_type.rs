//! The number types of weights in files: floats, and blocks of quantised numbers.

use std::sync::Arc;

use candle_core::quantized::GgmlDType;
use half::{bf16, f16};

use crate::error::{Error, ErrorKind, Result};
use crate::model::running::kernels::formats::{self, BlockFormat};
use crate::model::running::kernels::{Dense, Matrix, Packed};

/// Defines all types: the floats, and the formats of the table.
macro_rules! types {
    ($($module:ident::$Format:ident = $id:literal, $name:literal, $candle:expr;)*) => {
        /// A type of the numbers of a tensor.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum TensorType {
            F32,
            F16,
            Bf16,
            $($Format,)*
        }

        /// For each type its number in GGUF files, its name, the weights and the bytes of a block, and
        /// candle's name. In the order of the variants.
        const TYPES: &[(TensorType, u32, &str, usize, usize, Option<GgmlDType>)] = &[
            (TensorType::F32, 0, "F32", 1, 4, Some(GgmlDType::F32)),
            (TensorType::F16, 1, "F16", 1, 2, Some(GgmlDType::F16)),
            (TensorType::Bf16, 30, "BF16", 1, 2, Some(GgmlDType::BF16)),
            $({
                type F = formats::$module::$Format;
                (TensorType::$Format, $id, $name, F::BLOCK_WEIGHTS, F::BLOCK_BYTES, $candle)
            },)*
        ];

        impl TensorType {
            /// Returns a matrix of rows in the format of a file.
            pub(crate) fn matrix(self, rows: &[&[u8]], inputs: usize) -> Arc<dyn Matrix> {
                match self {
                    TensorType::F32 => Arc::new(Dense::<f32>::new(rows, inputs)),
                    TensorType::F16 => Arc::new(Dense::<f16>::new(rows, inputs)),
                    TensorType::Bf16 => Arc::new(Dense::<bf16>::new(rows, inputs)),
                    $(TensorType::$Format => {
                        Arc::new(Packed::<formats::$module::$Format>::new(rows, inputs))
                    })*
                }
            }
        }
    };
}
formats::formats!(types);

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
    pub(crate) fn from_gguf(id: u32, tensor: &str) -> Result<Self> {
        if let Some((found, ..)) = TYPES.iter().find(|t| t.1 == id) {
            return Ok(*found);
        }
        let name = UNSUPPORTED.iter().find(|t| t.0 == id).map(|t| t.1);
        let name = name.map_or_else(|| format!("number {id}"), str::to_owned);
        let known: Vec<&str> = TYPES.iter().map(|t| t.2).collect();
        Err(Error::new(ErrorKind::Unsupported, format!("the tensor `{tensor}` has the type {name}"))
            .hint(format!("take a file with other weights; these types work: {}", known.join(", "))))
    }

    fn entry(self) -> &'static (TensorType, u32, &'static str, usize, usize, Option<GgmlDType>) {
        &TYPES[self as usize]
    }

    /// Returns the name that people use.
    pub(crate) fn name(self) -> &'static str {
        self.entry().2
    }

    /// Returns the number of weights of a block.
    pub(crate) fn block_weights(self) -> usize {
        self.entry().3
    }

    /// Returns the number of bytes of a block.
    pub(crate) fn block_bytes(self) -> usize {
        self.entry().4
    }

    /// Returns the bytes of a tensor of this shape, or `None` if its rows are not whole blocks or
    /// it is too large.
    pub(crate) fn bytes(self, shape: &[usize]) -> Option<usize> {
        let elements = shape.iter().try_fold(1usize, |a, d| a.checked_mul(*d))?;
        // A row can be cut out of whole blocks.
        let whole = shape.last()?.is_multiple_of(self.block_weights());
        if whole { (elements / self.block_weights()).checked_mul(self.block_bytes()) } else { None }
    }

    /// Returns candle's name of the type, if it has one.
    pub(crate) fn candle(self) -> Option<GgmlDType> {
        self.entry().5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_candle() {
        for &(kind, id, name, weights, bytes, candle) in TYPES {
            assert_eq!(TensorType::from_gguf(id, "w").unwrap(), kind);
            assert_eq!((kind.name(), kind.block_weights(), kind.block_bytes()), (name, weights, bytes));
            if let Some(candle) = candle {
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
