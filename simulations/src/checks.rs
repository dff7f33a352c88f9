//! What must hold whatever happens, and what must hold once the network has healed.

use std::collections::BTreeSet;

use sovm_object::{
    id::{RecordId, SiteId},
    record::OpKind,
};

use crate::node::Node;

/// Safety: nodes that know the same ops have the same roster, and nobody counts whose removal no later add has seen.
pub(crate) fn safety(nodes: &[Node], founder: SiteId, issued: &BTreeSet<RecordId>) -> Result<(), String> {
    for (number, node) in nodes.iter().enumerate() {
        if let Some(foreign) = node.ops.keys().find(|id| !issued.contains(id)) {
            return Err(format!("node {number} holds {foreign:?}, which nobody issued"));
        }
        let roster = node.roster(founder);
        for op in node
            .ops
            .values()
            .filter(|op| op.body().kind == OpKind::Remove && roster.is_valid(&op.id()))
        {
            let site = op.body().site;
            let readded = node.ops.values().any(|other| {
                let body = other.body();
                body.kind == OpKind::Add && body.site == site && has_seen(node, &body.ops_seen, &op.id())
            });
            if roster.role(&site).is_some() && !readded {
                return Err(format!("node {number} counts a removed site that nobody added again"));
            }
        }
        for other in &nodes[number + 1..] {
            if node.ops.keys().eq(other.ops.keys()) {
                let (mine, theirs): (Vec<_>, Vec<_>) =
                    (roster.members().collect(), other.roster(founder).members().collect());
                if mine != theirs {
                    return Err(format!(
                        "node {number} and another know the same ops and count different members"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Whether somebody who had seen these ops had seen `wanted`, directly or not.
fn has_seen(node: &Node, heads: &[RecordId], wanted: &RecordId) -> bool {
    let mut open = heads.to_vec();
    let mut done = BTreeSet::new();
    while let Some(id) = open.pop() {
        if id == *wanted {
            return true;
        }
        if done.insert(id)
            && let Some(op) = node.ops.get(&id)
        {
            open.extend(op.body().ops_seen.iter().copied());
        }
    }
    false
}

/// Liveness: after healing everybody knows everything that was issued.
pub(crate) fn converged(nodes: &[Node], issued: &BTreeSet<RecordId>) -> bool {
    nodes.iter().all(|node| node.ops.len() == issued.len())
}
