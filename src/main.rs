//! The `ffwd` program; everything it does is in the library's `cli` module.

fn main() -> std::process::ExitCode {
    ffwd::cli::main()
}
