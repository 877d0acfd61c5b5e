//! The program; [`ffwd_maskbench`] describes the measurement.

use std::process::ExitCode;

fn main() -> ExitCode {
    ffwd_maskbench::main(&[])
}
