//! All ops of a table by what their authors had seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::{id::RecordId, record::TableOp};

/// The ops of one table that are known, whatever they count for.
#[derive(Clone, Debug, Default)]
pub struct OpGraph {
    ops: BTreeMap<RecordId, Node>,
}

#[derive(Clone, Debug)]
struct Node {
    op: TableOp,
    /// Length of the longest chain of ops under it; `None` while one of them is not here.
    depth: Option<usize>,
}

impl OpGraph {
    /// Orders ops of one table.
    pub fn of(ops: impl IntoIterator<Item = (RecordId, TableOp)>) -> Self {
        let nodes = ops.into_iter().map(|(id, op)| (id, Node { op, depth: None }));
        let mut graph = Self { ops: nodes.collect() };
        graph.measure();
        graph
    }

    /// Finds depths from the ops without parents upwards. An op with a parent that is not here, or that comes back to itself, is
    /// never reached.
    fn measure(&mut self) {
        let mut open: BTreeMap<RecordId, usize> = BTreeMap::new();
        let mut children: BTreeMap<RecordId, Vec<RecordId>> = BTreeMap::new();
        let mut ready = Vec::new();
        for (id, node) in &self.ops {
            open.insert(*id, node.op.parents.len());
            for parent in &node.op.parents {
                children.entry(*parent).or_default().push(*id);
            }
            if node.op.parents.is_empty() {
                ready.push(*id);
            }
        }
        while let Some(id) = ready.pop() {
            let depth = self.ops.get(&id).map_or(0, |node| {
                let depths = node.op.parents.iter().filter_map(|parent| self.depth(parent));
                depths.max().map_or(0, |deepest| deepest + 1)
            });
            if let Some(node) = self.ops.get_mut(&id) {
                node.depth = Some(depth);
            }
            for child in children.get(&id).into_iter().flatten() {
                if let Some(left) = open.get_mut(child) {
                    *left -= 1;
                    if *left == 0 {
                        ready.push(*child);
                    }
                }
            }
        }
    }

    fn depth(&self, id: &RecordId) -> Option<usize> {
        self.ops.get(id)?.depth
    }

    /// Whether an op is here with everything its author had seen.
    pub fn knows(&self, id: &RecordId) -> bool {
        self.depth(id).is_some()
    }

    /// Ops that are here with everything their authors had seen.
    pub fn known(&self) -> impl Iterator<Item = &RecordId> {
        self.ops
            .iter()
            .filter(|(_, node)| node.depth.is_some())
            .map(|(id, _)| id)
    }

    /// These ops and all that their authors had seen. Ops that are not known have nothing.
    pub fn ancestry<'a>(&self, of: impl IntoIterator<Item = &'a RecordId>) -> BTreeSet<RecordId> {
        let mut found = BTreeSet::new();
        let mut open: Vec<RecordId> = of.into_iter().filter(|id| self.knows(id)).copied().collect();
        while let Some(id) = open.pop() {
            if found.insert(id)
                && let Some(node) = self.ops.get(&id)
            {
                open.extend(node.op.parents.iter().filter(|parent| !found.contains(parent)));
            }
        }
        found
    }

    /// Those of `ops` that no other of them had seen: what a new op names as its parents.
    pub fn heads(&self, ops: &BTreeSet<RecordId>) -> Vec<RecordId> {
        let parents = ops
            .iter()
            .filter_map(|id| self.ops.get(id))
            .flat_map(|node| &node.op.parents);
        let under = self.ancestry(parents);
        ops.difference(&under).copied().collect()
    }

    /// Known ops among `counted`, in the one order.
    pub(super) fn in_order(&self, counted: &BTreeSet<RecordId>) -> Vec<(RecordId, &TableOp)> {
        let mut ops: Vec<_> = counted
            .iter()
            .filter_map(|id| {
                let node = self.ops.get(id)?;
                Some((node.depth?, *id, &node.op))
            })
            .collect();
        ops.sort_unstable_by_key(|(depth, id, _)| (*depth, *id));
        ops.into_iter().map(|(_, id, op)| (id, op)).collect()
    }
}
