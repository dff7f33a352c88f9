//! Tests of the transitions, from outside: versions in, versions or refusals out.

mod batches;
mod changes;
mod cross_product;
mod entries;
mod fixture;
mod products;
mod random;
mod recovery;
mod refusals;
mod rollouts;
mod table;
