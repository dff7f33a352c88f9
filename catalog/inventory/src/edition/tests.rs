//! An edition's life on stores: built, sealed, recorded; every refusal by name; killed between any two operations.

mod checks;
mod crashes;
mod life;
mod merge;
mod open;
mod publish;
mod refusals;
mod registrations;
