//! Walking the chain from a head towards the first version.

use super::{
    Fetch, Head, Invalid, ReadError,
    head::{alone, link},
};
use crate::{
    doc::{Root, Seq, Stored, layout},
    store::StorePath,
};

/// Reads versions from a head backwards down to `through`, or to the first that isn't stored, giving each to `visit`, the
/// head first. `visit` ends the walk by answering `false`.
///
/// Each version is verified by the hash the one after it names; versions from before the history fields are linked by
/// nothing but their numbers. Answers with the number the walk should have gone on with, if there is no such root.
pub async fn versions_back_from<F: Fetch + ?Sized>(
    fetch: &F,
    head: &Head,
    through: Seq,
    mut visit: impl FnMut(&Stored<Root>) -> bool + Send,
) -> Result<Option<Seq>, ReadError> {
    let mut version = head.root().clone();
    loop {
        if !visit(&version) || version.seq <= through {
            return Ok(None);
        }
        let Some(seq) = version.seq.previous() else {
            return Ok(None);
        };
        let Some(bytes) = fetch.fetch(&StorePath::parse(&layout::root(seq))?).await? else {
            return Ok(Some(seq));
        };
        let root = alone(seq, bytes).map_err(|why| ReadError::Chain { seq, why })?;
        if let Some(named) = link(&version)
            && named != root.sha256()
        {
            let why = Invalid::Link {
                names: Some(named),
                base: root.sha256(),
            };
            return Err(ReadError::Chain { seq: version.seq, why });
        }
        version = root;
    }
}
