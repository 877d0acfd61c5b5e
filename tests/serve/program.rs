//! `ffwd serve` as a child process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A server with the embedded model on a free port. Dropping it ends it.
pub(crate) struct Program {
    pub address: SocketAddr,
    child: Child,
}

impl Program {
    /// Starts the program and waits until it listens.
    pub(crate) fn serve(more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ffwd"));
        command.args(["serve", "--port", "0"]).args(more).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.by_ref().find_map(|line| {
            let line = line.unwrap();
            let Some(url) = line.strip_prefix("listening on http://") else {
                eprintln!("{line}");
                return None;
            };
            Some(url.split('/').next().unwrap().parse().unwrap())
        });
        // What it writes later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(|line| eprintln!("{}", line.unwrap())));
        Program { address: address.expect("the server does not start"), child }
    }

    /// The memory of the process in MiB, where the system shows it.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
    }

    /// Sends SIGTERM.
    #[cfg(unix)]
    pub(crate) fn terminate(&self) {
        let sent = Command::new("kill").args(["-s", "TERM", &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until the process ends.
    #[cfg(unix)]
    pub(crate) fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
