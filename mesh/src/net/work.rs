//! Counting work in progress, so that a stop can wait for it and then refuse more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

/// Shared count of running work; after [`stop`](Self::stop) no new work begins.
#[derive(Clone, Default)]
pub(super) struct Work(Arc<Inner>);

#[derive(Default)]
struct Inner {
    running: AtomicUsize,
    stopping: AtomicBool,
    changed: Notify,
}

/// One piece of work; it ends when this is dropped.
pub(super) struct Running(Arc<Inner>);

impl Work {
    /// Begins one piece of work, or `None` when we are stopping.
    pub(super) fn begin(&self) -> Option<Running> {
        self.0.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(self.0.clone());
        // Counted first, then asked: a stop that comes between the two waits for us to see it.
        (!self.is_stopping()).then_some(running)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::SeqCst)
    }

    /// Refuses new work and waits for the running work, at most `grace`. Returns whether all of it ended.
    pub(super) async fn stop(&self, grace: Duration) -> bool {
        self.0.stopping.store(true, Ordering::SeqCst);
        let idle = async {
            loop {
                let changed = self.0.changed.notified();
                if self.0.running.load(Ordering::SeqCst) == 0 {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(grace, idle).await.is_ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stop_waits_for_running_work_and_refuses_more() {
        let work = Work::default();
        let running = work.begin().unwrap();
        assert!(!work.stop(Duration::from_millis(20)).await);
        assert!(work.begin().is_none());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(running);
        });
        assert!(work.stop(Duration::from_secs(5)).await);
    }
}
