//! Programs that run beside a test, and end with it.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A program that is killed when it is dropped.
pub(crate) struct Program(Child);

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let name = command.get_program().display().to_string();
        let child = command.stdin(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{name} does not start: {error}")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It fails only where the program has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example, while it runs.
pub(crate) struct Monitor {
    _program: Program,
    /// Where it serves.
    pub(crate) address: String,
}

impl Monitor {
    /// Starts it for longer than any test takes.
    pub(crate) fn start() -> Self {
        let test = std::env::current_exe().expect("this program has a path");
        let example: PathBuf =
            test.ancestors().nth(2).expect("a target folder").join("examples").join("monitor");
        assert!(example.exists(), "{} must be built first", example.display());
        let mut program = Program::start(
            Command::new(example).args(["--tasks", "500", "--seconds", "600"]).stdout(Stdio::piped()),
        );
        let output = BufReader::new(program.0.stdout.take().expect("a pipe"));
        let address = output
            .lines()
            .map(|line| line.expect("text"))
            .find_map(|line| Some(line.split_once("http://")?.1.split_once('/')?.0.to_owned()))
            .expect("it tells its address");
        Self { _program: program, address }
    }
}

/// An address that nobody listened at just now.
pub(crate) fn free_address() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").to_string()
}

/// An empty folder for a program's files, removed with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("timingwheel-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
