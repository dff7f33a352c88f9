//! Reading, writing and storing side by side: while one thread splits text into rows, a second makes objects of those before,
//! and the object made last is on its way to the disk.

use std::sync::mpsc;

use arrow::array::RecordBatch;

use super::objects::{Finished, ObjectWriter};
use crate::error::ApiError;

/// Batches that may wait for the writer. A batch is bounded in rows and bytes, so this bounds what waits.
const BATCHES_IN_FLIGHT: usize = 4;

/// What the reader hands to the writer.
enum Step {
    Rows(RecordBatch),
    /// All rows were read, and none was bad. Without this word nothing is finished that only seems to be at its end.
    End,
}

/// Reads all batches and delivers the objects made of them. Blocks until both ends are done.
pub(super) fn write_objects(
    batches: &mut dyn Iterator<Item = Result<RecordBatch, ApiError>>,
    writer: ObjectWriter,
    deliver: &mut (dyn FnMut(Finished) -> Result<(), ApiError> + Send),
) -> Result<(), ApiError> {
    let (steps, rows) = mpsc::sync_channel(BATCHES_IN_FLIGHT);
    std::thread::scope(|scope| {
        let written = scope.spawn(move || write(&rows, writer, deliver));
        let read = read(batches, &steps);
        drop(steps);
        let written = written
            .join()
            .map_err(|_| ApiError::bug("the thread that makes objects broke off"))?;
        // When both fail, the writer stopped the reader or the other way round; only the cause is an error.
        written.and(read)
    })
}

fn read(
    batches: &mut dyn Iterator<Item = Result<RecordBatch, ApiError>>,
    steps: &mpsc::SyncSender<Step>,
) -> Result<(), ApiError> {
    for batch in batches {
        if steps.send(Step::Rows(batch?)).is_err() {
            return Ok(());
        }
    }
    // A writer that is gone has failed and reports that itself.
    let _ = steps.send(Step::End);
    Ok(())
}

fn write(
    steps: &mpsc::Receiver<Step>,
    mut writer: ObjectWriter,
    deliver: &mut dyn FnMut(Finished) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    for step in steps {
        match step {
            Step::Rows(batch) => writer.write(&batch, deliver)?,
            Step::End => return writer.finish(deliver),
        }
    }
    Ok(())
}
