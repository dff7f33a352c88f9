//! Work spread over threads, results in the order of the work.

use std::sync::{Mutex, PoisonError};

/// Threads that can run side by side here.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` over `jobs` on at most `threads` threads. A panic of the work goes on in the caller.
pub fn in_parallel<J: Send, R: Send>(threads: usize, jobs: Vec<J>, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let threads = threads.min(jobs.len());
    if threads < 2 {
        return jobs.into_iter().map(work).collect();
    }
    let count = jobs.len();
    let jobs = Mutex::new(jobs.into_iter().enumerate());
    let results = Mutex::new(Vec::with_capacity(count));
    let worker = || {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, job)) = job else { return };
            let result = work(job);
            results
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_jobs() {
        for threads in [0, 1, 2, 5, 100] {
            let doubled = in_parallel(threads, (0..50).collect(), |job: u32| job * 2);
            assert_eq!(doubled, (0..50).map(|job| job * 2).collect::<Vec<_>>(), "{threads}");
        }
        assert_eq!(in_parallel(4, Vec::new(), |job: u32| job), Vec::<u32>::new());
    }
}
