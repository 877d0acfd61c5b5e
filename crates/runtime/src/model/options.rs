//! What a user chooses when a model is loaded: formats of weights and of the cache, the context, and
//! the device on which candle's tensors run.

use std::fmt;
use std::str::FromStr;

use half::f16;

use crate::error::{Error, ErrorKind, Result};

/// The format of weight matrices in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// Single precision, whatever the file holds: most exact.
    F32,
    /// 8-bit blocks: a quarter of the memory. Matrices whose rows are not whole blocks of 32 stay
    /// `F32`.
    Q8_0,
    /// 4-bit blocks where rows are multiples of 256, otherwise `Q8_0`: about a fifth of the memory,
    /// at a visible loss. The embedding table and the output matrix keep the blocks that they have
    /// in the file, or become `Q8_0`.
    Q4K,
    /// The format of the file.
    #[default]
    AsStored,
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "stored" => Ok(Precision::AsStored),
            "f32" => Ok(Precision::F32),
            "q8_0" => Ok(Precision::Q8_0),
            "q4_k" => Ok(Precision::Q4K),
            _ => Err(format!("{text:?} is none of stored, f32, q8_0, q4_k")),
        }
    }
}

/// Options for loading a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Format of weight matrices in memory.
    pub precision: Precision,
    /// Makes the logits of a position the same, bit for bit, whether it runs alone or among others.
    /// This crate's kernels always do. On a `device` each row then runs alone, which makes verifying
    /// drafts as slow as plain decoding.
    pub batch_invariant: bool,
    /// Limits the context to fewer positions than the model allows.
    pub max_context: Option<usize>,
    /// Runs the model with candle's operations on this device, instead of this crate's kernels on
    /// the processor. Quantised weights are then multiplied by candle.
    ///
    /// Candle's products round differently for different numbers of rows; see `batch_invariant`.
    pub device: Option<Device>,
    /// Format of keys and values in the cache.
    pub kv: KvPrecision,
}

impl LoadOptions {
    /// Returns the default options with this precision.
    pub fn with_precision(precision: Precision) -> Self {
        LoadOptions { precision, ..Self::default() }
    }
}

/// The format of keys and values in a [`KvCache`](super::KvCache).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KvPrecision {
    /// Single precision: the cache changes no number.
    #[default]
    F32,
    /// Half precision: half of the memory. Keys and values are rounded once, when they enter the
    /// cache. So the text may differ from that with [`F32`](Self::F32), but all modes still read
    /// the same numbers and give the same text.
    F16,
}

impl KvPrecision {
    /// Returns the bytes of a number.
    pub(crate) fn bytes(self) -> usize {
        match self {
            KvPrecision::F32 => size_of::<f32>(),
            KvPrecision::F16 => size_of::<f16>(),
        }
    }
}

impl FromStr for KvPrecision {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "f32" => Ok(KvPrecision::F32),
            "f16" => Ok(KvPrecision::F16),
            _ => Err(format!("{text:?} is neither f32 nor f16")),
        }
    }
}

/// A device for the forward that is built from candle's tensors; see
/// [`LoadOptions::device`].
///
/// ```
/// use ffwd::model::Device;
///
/// assert_eq!("cpu".parse(), Ok(Device::Cpu));
/// assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
/// assert_eq!("metal:1".parse(), Ok(Device::Metal(1)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// The processor.
    Cpu,
    /// The CUDA device with this number; needs a build with the feature `cuda`.
    Cuda(usize),
    /// The Metal device with this number; needs a build with the feature `metal`.
    Metal(usize),
}

impl Device {
    /// Opens the device.
    pub(crate) fn open(self) -> Result<candle_core::Device> {
        let opened = match self {
            Device::Cpu => return Ok(candle_core::Device::Cpu),
            Device::Cuda(_) if !cfg!(feature = "cuda") => return Err(not_built("cuda")),
            Device::Metal(_) if !cfg!(feature = "metal") => return Err(not_built("metal")),
            Device::Cuda(number) => {
                #[cfg(feature = "cuda")]
                check_libraries()?;
                candle_core::Device::new_cuda(number)
            }
            Device::Metal(number) => candle_core::Device::new_metal(number),
        };
        opened.map_err(|e| {
            Error::new(ErrorKind::Unsupported, format!("the device {self} cannot be used: {e}"))
                .hint("without a device the model runs on the processor")
        })
    }
}

/// Returns an error if one of CUDA's libraries cannot be loaded. A program that loads them when it
/// needs them would panic inside candle.
#[cfg(feature = "cuda")]
fn check_libraries() -> Result<()> {
    let loads = |name: &str| {
        ["", ".13", ".12", ".11", ".10", ".1"].iter().any(|version| {
            // SAFETY: the code that runs on loading is that of NVIDIA's libraries, which are made for it.
            unsafe { libloading::Library::new(format!("lib{name}.so{version}")) }
                .map(std::mem::forget)
                .is_ok()
        })
    };
    // Elsewhere the names are others, and the linker's.
    let Some(missing) = ["cuda", "cublas", "curand"].into_iter().find(|name| cfg!(unix) && !loads(name))
    else {
        return Ok(());
    };
    let (what, hint) = match missing {
        "cuda" => ("there is no driver of NVIDIA", "install the driver"),
        _ => ("CUDA is incomplete", "install CUDA's libraries, and name their folder in LD_LIBRARY_PATH"),
    };
    let text = format!("a CUDA device cannot be used: {what} (lib{missing}.so does not load)");
    let hint = format!("{hint}, or run on the processor without a device");
    Err(Error::new(ErrorKind::Unsupported, text).hint(hint))
}

fn not_built(feature: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this build cannot use a {feature} device"))
        .hint(format!("build with `--features {feature}`, or run on the processor without a device"))
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, number) = text.split_once(':').unwrap_or((text, "0"));
        match (name, number.parse()) {
            ("cpu", _) if text == name => Ok(Device::Cpu),
            ("cuda", Ok(number)) => Ok(Device::Cuda(number)),
            ("metal", Ok(number)) => Ok(Device::Metal(number)),
            _ => Err(format!("{text:?} is none of cpu, cuda, cuda:N, metal, metal:N")),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(number) => write!(f, "cuda:{number}"),
            Device::Metal(number) => write!(f, "metal:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_as_they_are_written() {
        for device in [Device::Cpu, Device::Cuda(0), Device::Cuda(3), Device::Metal(1)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        for wrong in ["", "gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:1:2", "CPU"] {
            assert!(wrong.parse::<Device>().is_err(), "{wrong}");
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn a_missing_library_is_an_error() {
        let Err(error) = check_libraries() else { return };
        assert_eq!(Device::Cuda(0).open().unwrap_err().to_string(), error.to_string());
        assert!(error.to_string().contains("does not load"), "{error}");
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_device_that_is_not_built_in_is_an_error() {
        let error = Device::Cuda(0).open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("--features cuda"), "{error}");
    }
}
