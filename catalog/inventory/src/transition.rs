//! What may happen to an edition, as pure functions.
//!
//! A transition takes the version a writer read and what somebody wants, and answers with the next version's entries and
//! tombstones, or with a refusal that names the rule. It reads no store and no clock, so a writer that lost a race calls the
//! same function again with the new head, and every precondition is judged afresh.

pub mod retention;
