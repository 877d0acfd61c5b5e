//! The device on which candle's tensors run a model.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// A device for the forward that is built from candle's tensors; see
/// [`LoadOptions::device`](super::LoadOptions::device).
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
    pub(super) fn open(self) -> Result<candle_core::Device> {
        let opened = match self {
            Device::Cpu => return Ok(candle_core::Device::Cpu),
            Device::Cuda(_) if !cfg!(feature = "cuda") => return Err(not_built("cuda")),
            Device::Metal(_) if !cfg!(feature = "metal") => return Err(not_built("metal")),
            Device::Cuda(number) => candle_core::Device::new_cuda(number),
            Device::Metal(number) => candle_core::Device::new_metal(number),
        };
        opened.map_err(|e| {
            Error::new(ErrorKind::Unsupported, format!("the device {self} cannot be used: {e}"))
                .hint("without a device the model runs on the processor")
        })
    }
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

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_device_that_is_not_built_in_is_an_error() {
        let error = Device::Cuda(0).open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("--features cuda"), "{error}");
    }
}
