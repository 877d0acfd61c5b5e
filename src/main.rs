//! Entry point of the program `ffwd`; the code is in the library's module `cli`.

fn main() -> std::process::ExitCode {
    ffwd::cli::main()
}
