//! The progress bar: shown on a terminal only, and only once a command has taken two seconds (DESIGN §11).

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::api::Unit;

/// Shorter commands show nothing, so that nothing flickers.
const QUIET_FOR: Duration = Duration::from_secs(2);

/// The bar of one command; its stages follow each other.
pub(super) struct Bar {
    started: Instant,
    shown: Option<(String, ProgressBar)>,
}

impl Bar {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            shown: None,
        }
    }

    pub(super) fn show(&mut self, stage: &str, unit: Unit, done: u64, total: Option<u64>) {
        if self.started.elapsed() < QUIET_FOR {
            return;
        }
        if self.shown.as_ref().is_none_or(|(shown, _)| shown != stage) {
            self.clear();
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
            bar.set_style(style(unit, total.is_some()));
            bar.set_message(super::visible(stage).into_owned());
            self.shown = Some((stage.to_owned(), bar));
        }
        if let Some((_, bar)) = &self.shown {
            if let Some(total) = total {
                bar.set_length(total.max(done));
            }
            bar.set_position(done);
        }
    }

    /// Takes the bar off the screen before a line of text; the next event draws it again.
    pub(super) fn pause(&mut self) {
        self.clear();
    }

    pub(super) fn clear(&mut self) {
        if let Some((_, bar)) = self.shown.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(unit: Unit, total_is_known: bool) -> ProgressStyle {
    let template = match (unit, total_is_known) {
        (Unit::Bytes, true) => "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left",
        (Unit::Bytes, false) => "{msg} {bytes} {bytes_per_sec} {spinner}",
        (_, true) => "{msg} {wide_bar} {pos}/{len}, {eta} left",
        (_, false) => "{msg} {pos} {spinner}",
    };
    ProgressStyle::with_template(template).expect("the templates above are well formed")
}
