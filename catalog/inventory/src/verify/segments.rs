//! History segments: their links, and the lines of removed roots.

use std::collections::BTreeSet;

use super::{Check, Fault, Line, Lines};
use crate::doc::{Catalog, Document as _, History, Segment, SegmentKind, SegmentPath, Sha256, layout};

impl Check<'_> {
    /// INV-285, INV-321, INV-323: follows the segments from `HISTORY` back and gathers their lines. A catalogue that never
    /// opted in has neither.
    pub(super) async fn segments(&mut self, catalog: Option<&Catalog>) -> Lines {
        let mut lines = Lines::new();
        let history = self.history(catalog).await;
        let mut linked: BTreeSet<SegmentPath> = BTreeSet::new();
        let mut named_by = layout::HISTORY.to_owned();
        let mut next = history.as_ref().and_then(|history| history.newest_segment.clone());
        while let Some((path, sha256)) = next.take() {
            // A chain of hashes has no circle, unless somebody forged a link that this walk has reported.
            if !linked.insert(path.clone()) {
                break;
            }
            let Some(segment) = self.segment(&path, sha256, &named_by).await else {
                break;
            };
            if let Some(catalog) = catalog
                && segment.header.catalog_id != catalog.catalog_id
            {
                let (found, expected) = (segment.header.catalog_id, catalog.catalog_id);
                self.fault(path.to_string(), Fault::OfAnotherCatalog { found, expected });
            }
            for line in &segment.lines {
                let expired = segment.header.kind == SegmentKind::Expiry;
                let kept = Line {
                    root_sha256: line.root_sha256,
                    previous: line.history.as_ref().and_then(|history| history.previous_root_sha256),
                    has_history: line.history.is_some(),
                    expired,
                };
                let (epoch, seq) = (line.restore_epoch, line.seq);
                if let Some(other) = lines.insert((epoch, seq), kept) {
                    self.fault(path.to_string(), Fault::SegmentOverlap { seq, epoch });
                    if other.root_sha256 != kept.root_sha256 {
                        let (line, found) = (kept.root_sha256, other.root_sha256);
                        let other = "the line in a later segment";
                        self.fault(
                            path.to_string(),
                            Fault::Line {
                                seq,
                                line,
                                other,
                                found,
                            },
                        );
                    }
                }
            }
            named_by = path.to_string();
            next = segment.header.previous_segment;
        }
        if let Some(history) = &history {
            self.bounds(history, &linked, &lines);
        }
        for path in self.list(layout::SEGMENTS).await {
            let known = path
                .as_str()
                .parse()
                .is_ok_and(|path: SegmentPath| linked.contains(&path));
            if !known {
                self.fault(path.to_string(), Fault::SegmentOrphan);
            }
        }
        lines
    }

    async fn history(&mut self, catalog: Option<&Catalog>) -> Option<History> {
        let Some(bytes) = self.read(layout::HISTORY).await else {
            if catalog.is_some_and(Catalog::is_opted_in) {
                self.fault(layout::HISTORY, Fault::HistoryMissing);
            }
            return None;
        };
        let history = match History::decode(&bytes) {
            Ok(history) => history,
            Err(error) => {
                self.fault(layout::HISTORY, error);
                return None;
            }
        };
        if let Some(catalog) = catalog
            && catalog.catalog_id != history.catalog_id
        {
            let (found, expected) = (history.catalog_id, catalog.catalog_id);
            self.fault(layout::HISTORY, Fault::OfAnotherCatalog { found, expected });
        }
        Some(history)
    }

    async fn segment(&mut self, path: &SegmentPath, sha256: Sha256, named_by: &str) -> Option<Segment> {
        let name = path.to_string();
        let unreadable = self.report.errors();
        let Some(bytes) = self.read(&name).await else {
            if unreadable == self.report.errors() {
                let named_by = named_by.to_owned();
                self.fault(name, Fault::SegmentMissing { named_by });
            }
            return None;
        };
        self.report.counts.segments += 1;
        let segment = crate::doc::Stored::<Segment>::verify(bytes, sha256)
            .and_then(|segment| segment.check_path(path).map(|()| segment.into_value()));
        segment.map_err(|error| self.fault(name, error)).ok()
    }

    /// INV-279, INV-323: what `HISTORY` says of how far expiry went.
    fn bounds(&mut self, history: &History, linked: &BTreeSet<SegmentPath>, lines: &Lines) {
        if let Some(cleaned) = history
            .cleaned_through
            .as_ref()
            .filter(|cleaned| !linked.contains(*cleaned))
        {
            let named = cleaned.to_string();
            self.fault(layout::HISTORY, Fault::CleanedElsewhere { named });
        }
        let expired_through = history.expired_through;
        let above = lines
            .iter()
            .filter(|((_, seq), line)| line.expired && expired_through.is_none_or(|through| *seq > through))
            .map(|((_, seq), _)| *seq)
            .max();
        // A restore lowers expired_through to the version restored, so lines of earlier epochs may lie above it.
        if let Some(seq) = above
            && lines.contains_key(&(history.restore_epoch, seq))
        {
            self.fault(layout::HISTORY, Fault::ExpiredAbove { seq, expired_through });
        }
    }
}
