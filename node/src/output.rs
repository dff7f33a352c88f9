//! The one type that decides what reaches the user, and how: data or notes, human or JSON, quiet, progress, colours.
//!
//! Data goes to stdout, everything else to stderr (DESIGN §11). Nothing else in the crate prints.

mod progress;
mod rows;
mod table;
mod uuid;

use std::{
    borrow::Cow,
    io::{self, BufWriter, IsTerminal as _, Write},
    sync::{Mutex, MutexGuard, PoisonError},
};

use self::progress::Bar;
pub use self::{
    rows::{RowFormat, RowPrinter},
    table::TextTable,
};
use crate::{
    api::{Event, ProgressSink, Response},
    error::ApiError,
};

/// What the user asked for on the command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputOptions {
    /// One JSON object on stdout instead of text.
    pub json: bool,
    /// No notes and no progress.
    pub quiet: bool,
}

/// Where data, notes and progress of one command go.
pub struct Output {
    options: OutputOptions,
    stdout: Mutex<Box<dyn Write + Send>>,
    stderr: Mutex<Box<dyn Write + Send>>,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    bar: Mutex<Bar>,
}

/// A meaning, shown as a colour on terminals.
#[derive(Clone, Copy, Debug)]
pub enum Tone {
    /// Held, done.
    Good,
    /// Did not hold.
    Bad,
    /// Of lesser importance.
    Dim,
}

impl Output {
    /// The process's own stdout and stderr.
    pub fn stdio(options: OutputOptions) -> Self {
        Self {
            options,
            stdout: Mutex::new(Box::new(BufWriter::with_capacity(64 * 1024, io::stdout()))),
            stderr: Mutex::new(Box::new(io::stderr())),
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
            bar: Mutex::new(Bar::new()),
        }
    }

    /// Writes to the given places, as if neither were a terminal.
    pub fn piped(options: OutputOptions, stdout: Box<dyn Write + Send>, stderr: Box<dyn Write + Send>) -> Self {
        Self {
            options,
            stdout: Mutex::new(stdout),
            stderr: Mutex::new(stderr),
            stdout_is_terminal: false,
            stderr_is_terminal: false,
            bar: Mutex::new(Bar::new()),
        }
    }

    /// Whether the user wants one JSON object.
    pub const fn is_json(&self) -> bool {
        self.options.json
    }

    /// Whether a person can answer a question: both ends are a terminal.
    pub fn can_ask(&self) -> bool {
        self.stderr_is_terminal && io::stdin().is_terminal()
    }

    /// Whether stdout is a terminal, so that binary data on it would be a mistake.
    pub const fn stdout_is_terminal(&self) -> bool {
        self.stdout_is_terminal
    }

    /// One line of data. Control characters are shown, not sent.
    pub fn line(&self, text: impl AsRef<str>) -> Result<(), ApiError> {
        self.bytes(visible_lines(text.as_ref()).as_bytes())
    }

    /// Raw data.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), ApiError> {
        lock(&self.bar).pause();
        let mut stdout = lock(&self.stdout);
        let written = stdout.write_all(bytes).and_then(|()| {
            if self.stdout_is_terminal {
                stdout.flush()
            } else {
                Ok(())
            }
        });
        written.map_err(|error| ApiError::io("writing to standard output", &error))
    }

    /// A value as one JSON document.
    pub fn json(&self, value: &serde_json::Value) -> Result<(), ApiError> {
        self.bytes(format!("{value:#}\n").as_bytes())
    }

    /// The whole answer as the JSON object that `--json` promises.
    pub fn json_response(&self, response: &Response) -> Result<(), ApiError> {
        self.json(&response.to_json().map_err(ApiError::bug)?)
    }

    /// A sentence for the person, on stderr; nothing with `--quiet`.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.options.quiet {
            self.say(&visible_lines(text.as_ref()));
        }
    }

    /// A sentence the person should not miss, on stderr, also with `--quiet`.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.say(&format!("warning: {}\n", visible(text.as_ref())));
    }

    /// The end of a command that failed. With `--json` the error is the one object on stdout, so that a script always
    /// finds exactly one.
    pub fn error(&self, error: &ApiError) {
        if error.kind == crate::error::ErrorKind::BrokenPipe {
            return;
        }
        if self.options.json {
            // Nobody is left to tell when even this fails.
            let _ = self.json(&error.to_json());
        } else {
            self.say(&error.render());
        }
        let _ = self.flush();
    }

    /// Sends what is buffered. A command is done only after this.
    pub fn flush(&self) -> Result<(), ApiError> {
        lock(&self.bar).clear();
        lock(&self.stdout)
            .flush()
            .map_err(|error| ApiError::io("writing to standard output", &error))
    }

    /// Text in a colour, when stdout is a terminal that wants one.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        let wants = self.stdout_is_terminal
            && !self.options.json
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        if !wants {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => 32,
            Tone::Bad => 31,
            Tone::Dim => 2,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// One line of data that may carry [`paint`](Self::paint): the caller passes foreign text through [`visible`].
    pub fn painted_line(&self, text: &str) -> Result<(), ApiError> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Asks a yes-or-no question on the terminal; no is the default.
    pub fn ask(&self, question: &str) -> Result<bool, ApiError> {
        self.say(&format!("{} [y/N] ", visible(question)));
        let mut answer = String::new();
        io::stdin()
            .read_line(&mut answer)
            .map_err(|error| ApiError::io("reading the answer", &error))?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Asks for a line of text on the terminal.
    pub fn ask_line(&self, prompt: &str) -> Result<String, ApiError> {
        self.say(&format!("{} ", visible(prompt)));
        let mut answer = String::new();
        io::stdin()
            .read_line(&mut answer)
            .map_err(|error| ApiError::io("reading the answer", &error))?;
        Ok(answer.trim().to_owned())
    }

    fn say(&self, text: &str) {
        lock(&self.bar).pause();
        let mut stderr = lock(&self.stderr);
        // A closed stderr is no reason to fail the command.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

impl ProgressSink for Output {
    fn event(&self, event: Event) {
        match event {
            Event::Progress {
                stage,
                unit,
                done,
                total,
            } => {
                if self.stderr_is_terminal && !self.options.quiet {
                    lock(&self.bar).show(&stage, unit, done, total);
                }
            }
            Event::Notice { text } => self.note(text),
            // The person must see it to answer, so not even --quiet hides it.
            Event::JoinCode { code } => self.say(&format!("code on this device: {}\n", visible(&code))),
        }
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Text with control characters and direction marks written as escapes: names come from other devices, and must not drive
/// the terminal.
pub fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    text.chars()
        .fold(String::with_capacity(text.len() + 8), |mut shown, c| {
            if hidden(c) {
                shown.extend(c.escape_default());
            } else {
                shown.push(c);
            }
            shown
        })
        .into()
}

/// The lines of a text, each made [`visible`] and ended.
fn visible_lines(text: &str) -> String {
    text.split('\n')
        .fold(String::with_capacity(text.len() + 1), |mut shown, line| {
            shown.push_str(&visible(line));
            shown.push('\n');
            shown
        })
}

/// A panic while printing leaves nothing half-changed that a later print could trip over.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod testing {
    use std::{
        io::Write,
        sync::{Arc, Mutex},
    };

    use super::{Output, OutputOptions};

    /// A writer that keeps what was written.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Captured {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }

        pub(crate) fn bytes(&self) -> Vec<u8> {
            self.0.lock().unwrap().clone()
        }
    }

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// An output whose stdout and stderr can be looked at.
    pub(crate) fn captured(options: OutputOptions) -> (Output, Captured, Captured) {
        let (stdout, stderr) = (Captured::default(), Captured::default());
        (
            Output::piped(options, Box::new(stdout.clone()), Box::new(stderr.clone())),
            stdout,
            stderr,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{testing::captured, *};
    use crate::{api::Unit, error::ErrorKind};

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// DESIGN §11: exit code 3, no panic, when `| head` goes away.
    #[test]
    fn closed_stdout_is_a_broken_pipe() {
        let output = Output::piped(OutputOptions::default(), Box::new(Closed), Box::new(io::sink()));
        assert_eq!(output.line("x").unwrap_err().exit_code, 3);
    }

    /// DESIGN §11: data on stdout, everything else on stderr; no progress without a terminal.
    #[test]
    fn data_and_notes_are_apart() {
        let (output, stdout, stderr) = captured(OutputOptions::default());
        output.line("data").unwrap();
        output.note("note");
        output.event(Event::Progress {
            stage: "reading".into(),
            unit: Unit::Bytes,
            done: 1,
            total: None,
        });
        assert_eq!((stdout.text().as_str(), stderr.text().as_str()), ("data\n", "note\n"));
    }

    #[test]
    fn quiet_keeps_errors_and_json_moves_them_to_stdout() {
        let error = ApiError::new(ErrorKind::Failed, "no");
        let (output, stdout, stderr) = captured(OutputOptions {
            quiet: true,
            json: false,
        });
        output.note("note");
        output.error(&error);
        assert_eq!((stdout.text().as_str(), stderr.text().as_str()), ("", "error: no\n"));
        let (output, stdout, stderr) = captured(OutputOptions {
            quiet: false,
            json: true,
        });
        output.error(&error);
        let value: serde_json::Value = serde_json::from_str(&stdout.text()).unwrap();
        assert_eq!(value["error"]["exit_code"], 1);
        assert_eq!(stderr.text(), "");
    }

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(visible("a\u{1b}[31mb\u{202e}"), "a\\u{1b}[31mb\\u{202e}");
        assert_eq!(visible("müsli 東京"), "müsli 東京");
        let (output, stdout, _) = captured(OutputOptions::default());
        output.line("two\nlines\t").unwrap();
        assert_eq!(stdout.text(), "two\nlines\\t\n");
    }
}
