//! A node that runs in the background of a test, and ends with it.

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::harness::Node;

/// `sovm run`, ready to answer. Its log goes to a file beside the home.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) log: PathBuf,
}

impl Daemon {
    pub(crate) fn of(node: &Node) -> Self {
        let log = node.path("daemon.log");
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let child = node
            .command(&["run"])
            .env("SOVM_LOG", "debug")
            .stdout(output.try_clone().unwrap())
            .stderr(Stdio::from(output))
            .spawn()
            .unwrap();
        let daemon = Self { child, log };
        node.ok(&["status", "--wait", "60s"]);
        daemon
    }

    /// Ends it without a word, as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it in order.
    pub(crate) fn stop(mut self) {
        let status = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(status.unwrap().success());
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Killed already, or left running by a test that failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
