use std::collections::{BTreeMap, BTreeSet};

use openmls::prelude::{
    Extensions, GroupId, KeyPackage, LeafNodeParameters, MlsGroup, MlsMessageIn, OpenMlsProvider as _,
    ProcessedMessageContent, ProtocolMessage,
    tls_codec::{Deserialize as _, Serialize as _},
};
use sovm_object::id::SiteId;

use super::*;

const GROUP: [u8; 32] = [7; 32];

struct Site {
    id: SiteId,
    key: MlsKey,
    rows: MemoryRows,
}

impl Site {
    fn new(n: u8) -> Self {
        Self {
            id: SiteId::from_bytes([n; 32]),
            key: MlsKey::from_seed(&[n; 32]),
            rows: MemoryRows::default(),
        }
    }

    /// One step whose writes are stored.
    fn run<T>(&mut self, f: impl FnOnce(&Mls<'_>, SiteId, &MlsKey) -> Result<T, MlsError>) -> Result<T, MlsError> {
        let (writes, out) = step(&self.rows, |mls| f(mls, self.id, &self.key))?;
        self.rows.apply(&writes);
        Ok(out)
    }

    fn view(&mut self) -> GroupView {
        self.run(|mls, _, _| mls.view(&GROUP)).unwrap()
    }

    fn offer(&mut self) -> AddMember {
        let key_package = self.run(|mls, me, key| mls.new_key_package(me, key)).unwrap();
        AddMember {
            site: self.id,
            mls_key: self.key.public(),
            key_package,
        }
    }

    fn stage(&mut self, change: &Change) -> Result<StagedChange, MlsError> {
        self.run(|mls, _, key| mls.stage_change(&GROUP, key, change))
    }

    fn merge_pending(&mut self) -> GroupView {
        self.run(|mls, _, _| mls.merge_pending(&GROUP)).unwrap()
    }

    fn merge(&mut self, from: SiteId, commit: &[u8], justified: &Justified) -> Result<MergedCommit, MlsError> {
        self.run(|mls, _, _| mls.merge_commit(&GROUP, commit, from, justified))
    }

    fn join(&mut self, welcome: &[u8], roster: &BTreeMap<SiteId, [u8; 32]>) -> Result<GroupView, MlsError> {
        self.run(|mls, _, _| {
            mls.join(
                welcome,
                &JoinCheck {
                    group_id: &GROUP,
                    roster,
                },
            )
        })
    }

    fn wrap_key(&mut self) -> Result<[u8; 32], MlsError> {
        self.run(|mls, _, _| mls.kek_wrap_key(&GROUP)).map(|key| *key)
    }
}

fn roster(sites: &[&Site]) -> BTreeMap<SiteId, [u8; 32]> {
    sites.iter().map(|site| (site.id, site.key.public())).collect()
}

fn adds(sites: &[&Site]) -> Justified {
    Justified {
        adds: roster(sites),
        removes: BTreeSet::new(),
    }
}

/// Three sites in one group: the first founds, adds the second, then the third.
fn three() -> (Site, Site, Site) {
    let (mut a, mut b, mut c) = (Site::new(1), Site::new(2), Site::new(3));
    a.run(|mls, me, key| mls.create_group(&GROUP, me, key)).unwrap();
    let staged = a
        .stage(&Change {
            add: vec![b.offer()],
            remove: vec![],
        })
        .unwrap();
    a.merge_pending();
    b.join(&staged.welcome.unwrap(), &roster(&[&a, &b])).unwrap();
    let staged = a
        .stage(&Change {
            add: vec![c.offer()],
            remove: vec![],
        })
        .unwrap();
    a.merge_pending();
    b.merge(a.id, &staged.commit, &adds(&[&c])).unwrap();
    c.join(&staged.welcome.unwrap(), &roster(&[&a, &b, &c])).unwrap();
    (a, b, c)
}

#[test]
fn members_of_one_branch_share_the_wrap_key() {
    let (mut a, mut b, mut c) = three();
    let view = a.view();
    assert_eq!((b.view(), c.view()), (view.clone(), view.clone()));
    assert_eq!(view.members.len(), 3);
    assert_eq!(view.epoch, 2);
    let key = a.wrap_key().unwrap();
    assert_eq!((b.wrap_key().unwrap(), c.wrap_key().unwrap()), (key, key));
}

/// DESIGN §8 "Removal": who was removed cannot compute the secret of the next epoch, whether it sees the commit or not.
#[test]
fn removed_member_cannot_export_the_next_secret() {
    let (mut a, mut b, mut c) = three();
    let before = c.wrap_key().unwrap();
    let staged = a
        .stage(&Change {
            add: vec![],
            remove: vec![c.id],
        })
        .unwrap();
    let pushed = a.run(|mls, _, _| mls.pending_kek_wrap_key(&GROUP)).unwrap();
    let justified = Justified {
        removes: [c.id].into(),
        ..Justified::default()
    };
    a.merge_pending();
    let merged = b.merge(a.id, &staged.commit, &justified).unwrap();
    assert_eq!((merged.removed, merged.view.branch), (vec![c.id], staged.branch));
    let after = a.wrap_key().unwrap();
    assert_eq!((after, b.wrap_key().unwrap()), (*pushed, after));

    // It keeps what it had, and only that.
    assert_eq!(c.wrap_key().unwrap(), before);
    assert_ne!(before, after);
    let seen = c.merge(a.id, &staged.commit, &justified).unwrap();
    assert!(!seen.view.active);
    assert!(matches!(c.wrap_key(), Err(MlsError::Evicted)));
    assert!(matches!(c.stage(&Change::default()), Err(MlsError::Evicted)));
}

/// mls.md T1, T2: a step whose writes are dropped, or that fails half-way, never happened.
#[test]
fn dropped_overlay_leaves_nothing() {
    let (mut a, mut b, _c) = three();
    let (rows, view) = (a.rows.clone(), a.view());
    let (writes, staged) = step(&a.rows, |mls| mls.stage_change(&GROUP, &a.key, &Change::default())).unwrap();
    assert!(!writes.is_empty());
    drop(writes);
    assert_eq!(a.rows, rows);
    assert_eq!(a.view(), view);

    let failed = step(&b.rows, |mls| {
        mls.merge_commit(&GROUP, &staged.commit, a.id, &Justified::default())?;
        Err::<(), _>(MlsError::NothingPending)
    });
    assert!(failed.is_err());
    assert_eq!(b.view(), view);
    // The same commit can still be merged, since its ratchet step was dropped too.
    b.merge(a.id, &staged.commit, &Justified::default()).unwrap();
}

/// mls.md §2.5: killed between storing the pending commit and merging it, the node goes on after a restart.
#[test]
fn pending_commit_survives_a_reload() {
    let (mut a, mut b, mut c) = three();
    let staged = a.stage(&Change::default()).unwrap();
    let mut restarted = Site {
        id: a.id,
        key: MlsKey::from_seed(&a.key.expose_for_sealing()),
        rows: a.rows.clone(),
    };
    drop(a);
    assert_eq!(
        restarted.view().pending,
        Some(PendingView {
            epoch: staged.epoch,
            branch: staged.branch
        })
    );
    assert!(matches!(
        restarted.stage(&Change::default()),
        Err(MlsError::AlreadyPending)
    ));
    // The echo of our own commit changes nothing (mdk#1285).
    let echo = restarted.merge(restarted.id, &staged.commit, &Justified::default());
    assert!(matches!(echo, Err(MlsError::OwnCommit)), "{echo:?}");
    let view = restarted.merge_pending();
    for other in [&mut b, &mut c] {
        assert_eq!(
            other
                .merge(restarted.id, &staged.commit, &Justified::default())
                .unwrap()
                .view,
            view
        );
    }
    assert!(matches!(
        restarted.run(|mls, _, _| mls.merge_pending(&GROUP)),
        Err(MlsError::NothingPending)
    ));
}

/// Rule R2: rivals are tried in a thrown-away overlay; the loser gives up its own and merges the winner.
#[test]
fn rival_commits_settle() {
    let (mut a, mut b, mut c) = three();
    let from_a = a.stage(&Change::default()).unwrap();
    let from_b = b.stage(&Change::default()).unwrap();
    for (by, staged) in [(a.id, &from_a), (b.id, &from_b)] {
        let tried = step(&c.rows, |mls| {
            mls.merge_commit(&GROUP, &staged.commit, by, &Justified::default())
        });
        assert_eq!(tried.unwrap().1.view.branch, staged.branch);
    }
    let view = b.merge_pending();
    for other in [&mut a, &mut c] {
        assert_eq!(
            other.merge(b.id, &from_b.commit, &Justified::default()).unwrap().view,
            view
        );
    }
    assert!(a.view().pending.is_none());
    let stale = c.merge(a.id, &from_a.commit, &Justified::default());
    assert!(matches!(stale, Err(MlsError::CommitRejected(_))), "{stale:?}");
}

/// Rule R1: what no signed op demands is refused, and the group stays where it was.
#[test]
fn unjustified_commits_are_refused() {
    let (mut a, mut b, c) = three();
    let mut d = Site::new(4);
    let view = b.view();
    let staged = a
        .stage(&Change {
            add: vec![d.offer()],
            remove: vec![c.id],
        })
        .unwrap();

    type Expected = fn(&MlsError) -> bool;
    let cases: [(Justified, Expected); 3] = [
        (Justified::default(), |e| {
            matches!(e, MlsError::UnjustifiedAdd(_) | MlsError::UnjustifiedRemove(_))
        }),
        (adds(&[&d]), |e| matches!(e, MlsError::UnjustifiedRemove(_))),
        (
            Justified {
                adds: [(d.id, [9; 32])].into(),
                removes: [c.id].into(),
            },
            |e| matches!(e, MlsError::UnjustifiedAdd(_)),
        ),
    ];
    for (justified, expected) in cases {
        let error = b.merge(a.id, &staged.commit, &justified).unwrap_err();
        assert!(expected(&error), "{error:?}");
        assert_eq!(b.view(), view);
    }
    let justified = Justified {
        adds: roster(&[&d]),
        removes: [c.id].into(),
    };
    assert!(matches!(
        b.merge(c.id, &staged.commit, &justified),
        Err(MlsError::WrongCommitter)
    ));
    assert!(b.merge(a.id, &staged.commit, &justified).is_ok());
}

/// Rule R1: by-reference proposals, other proposals, external commits and proposals from outside are refused.
#[test]
fn other_kinds_of_messages_are_refused() {
    let (a, mut b, c) = three();
    let group_id = GroupId::from_slice(&GROUP);
    let all = Justified {
        adds: roster(&[&a, &b, &c]),
        removes: [a.id, b.id, c.id].into(),
    };

    let by_reference = step(&a.rows, |mls| {
        let mut group = mls.load(&GROUP)?;
        let leaf = group
            .members()
            .find(|m| m.signature_key == c.key.public())
            .unwrap()
            .index;
        let (proposal, _) = group.propose_remove_member(mls, &a.key, leaf).unwrap();
        let (commit, ..) = group.commit_to_pending_proposals(mls, &a.key).unwrap();
        Ok::<_, MlsError>((proposal.to_bytes().unwrap(), commit.to_bytes().unwrap()))
    });
    let (proposal, commit) = by_reference.unwrap().1;
    assert!(matches!(b.merge(a.id, &commit, &all), Err(MlsError::CommitRejected(_))));
    assert!(matches!(b.merge(a.id, &proposal, &all), Err(MlsError::Malformed)));
    // Even a receiver that had stored the proposal refuses.
    let stored = step(&b.rows, |mls| {
        let mut group = mls.load(&GROUP)?;
        let processed = group.process_message(mls, commit::parse_commit(&proposal)?).unwrap();
        let ProcessedMessageContent::ProposalMessage(queued) = processed.into_content() else {
            panic!()
        };
        group.store_pending_proposal(mls.storage(), *queued).unwrap();
        mls.merge_commit(&GROUP, &commit, a.id, &all)
    });
    assert!(matches!(stored, Err(MlsError::ByReference)), "{:?}", stored.err());

    let context = step(&a.rows, |mls| {
        let mut group = mls.load(&GROUP)?;
        let (commit, ..) = group
            .update_group_context_extensions(mls, Extensions::empty(), &a.key)
            .unwrap();
        Ok::<_, MlsError>(commit.to_bytes().unwrap())
    });
    let refused = b.merge(a.id, &context.unwrap().1, &all);
    assert!(matches!(refused, Err(MlsError::UnexpectedProposal)), "{refused:?}");

    // A newcomer that got hold of a GroupInfo tries to walk in by itself.
    let outsider = Site::new(5);
    let info = step(&a.rows, |mls| {
        Ok::<_, MlsError>(mls.load(&GROUP)?.export_group_info(mls.crypto(), &a.key, true).unwrap())
    });
    let openmls::prelude::MlsMessageBodyIn::GroupInfo(info) =
        commit::parse_message(&info.unwrap().1.to_bytes().unwrap()).unwrap()
    else {
        panic!()
    };
    let external = step(&outsider.rows, |mls| {
        let (_, bundle) = MlsGroup::external_commit_builder()
            .build_group(mls, info, group::credential(outsider.id, &outsider.key))
            .unwrap()
            .leaf_node_parameters(LeafNodeParameters::default())
            .load_psks(mls.storage())
            .unwrap()
            .build(mls.rand(), mls.crypto(), &outsider.key, |_| true)
            .unwrap()
            .finalize(mls)
            .unwrap();
        Ok::<_, MlsError>(bundle.into_commit().to_bytes().unwrap())
    });
    assert!(matches!(
        b.merge(outsider.id, &external.unwrap().1, &all),
        Err(MlsError::External)
    ));

    let mut outsider = outsider;
    let package = outsider.offer();
    let proposal = step(&outsider.rows, |mls| {
        let package = commit::parse_key_package(&package.key_package).unwrap();
        let package = package
            .validate(mls.crypto(), openmls::prelude::ProtocolVersion::Mls10)
            .unwrap();
        let proposal =
            openmls::prelude::JoinProposal::new::<Overlay<'_>>(package, group_id.clone(), 2.into(), &outsider.key);
        Ok::<_, MlsError>(proposal.unwrap().to_bytes().unwrap())
    });
    assert!(matches!(
        b.merge(outsider.id, &proposal.unwrap().1, &all),
        Err(MlsError::External)
    ));
}

#[test]
fn foreign_key_packages_are_refused() {
    let (mut a, ..) = three();
    let (mut d, mut e) = (Site::new(4), Site::new(5));
    let good = d.offer();
    let other_site = AddMember {
        site: e.id,
        ..good.clone()
    };
    let other_key = AddMember {
        mls_key: e.key.public(),
        ..good.clone()
    };
    let garbage = AddMember {
        key_package: vec![0; 40],
        ..good.clone()
    };
    let mut flipped = good.clone();
    let at = flipped.key_package.len() / 2;
    flipped.key_package[at] ^= 1;
    let last_resort = d.run(|mls, me, key| {
        let bundle = KeyPackage::builder()
            .mark_as_last_resort()
            .build(SUITE, mls, key, group::credential(me, key));
        Ok(bundle.unwrap().key_package().tls_serialize_detached().unwrap())
    });
    let last_resort = AddMember {
        key_package: last_resort.unwrap(),
        ..good.clone()
    };
    for (bad, foreign) in [
        (other_site, true),
        (other_key, true),
        (garbage, false),
        (flipped, false),
        (last_resort, false),
    ] {
        let error = a
            .stage(&Change {
                add: vec![bad],
                remove: vec![],
            })
            .unwrap_err();
        match foreign {
            true => assert!(matches!(error, MlsError::ForeignKeyPackage(_)), "{error:?}"),
            false => assert!(matches!(error, MlsError::BadKeyPackage(_)), "{error:?}"),
        }
    }
    let unknown = a.stage(&Change {
        add: vec![],
        remove: vec![e.id],
    });
    assert!(matches!(unknown, Err(MlsError::NotAMember(_))));
    assert!(
        a.stage(&Change {
            add: vec![e.offer(), good],
            remove: vec![]
        })
        .is_ok()
    );
}

/// Rule R4: a Welcome is measured against the roster, and a refused one leaves the key package for the right one.
#[test]
fn welcome_is_checked_before_anything_changes() {
    let (mut a, b, c) = three();
    let mut d = Site::new(4);
    let staged = a
        .stage(&Change {
            add: vec![d.offer()],
            remove: vec![],
        })
        .unwrap();
    a.merge_pending();
    let welcome = staged.welcome.unwrap();
    let before = d.rows.clone();

    let refused = d.join(&welcome, &roster(&[&a, &b, &d]));
    assert!(matches!(refused, Err(MlsError::NotInRoster(site)) if site == c.id));
    let mut wrong_key = roster(&[&a, &b, &c, &d]);
    wrong_key.insert(b.id, [0; 32]);
    assert!(matches!(d.join(&welcome, &wrong_key), Err(MlsError::WrongLeafKey(site)) if site == b.id));
    let all = roster(&[&a, &b, &c, &d]);
    let other = d.run(|mls, _, _| {
        mls.join(
            &welcome,
            &JoinCheck {
                group_id: &[8; 32],
                roster: &all,
            },
        )
    });
    assert!(matches!(other, Err(MlsError::WrongGroup)));
    assert!(matches!(d.join(&staged.commit, &all), Err(MlsError::Malformed)));
    let mut stranger = Site::new(6);
    assert!(matches!(
        stranger.join(&welcome, &all),
        Err(MlsError::WelcomeRejected(_))
    ));

    assert_eq!(d.rows, before);
    assert_eq!(d.join(&welcome, &all).unwrap(), a.view());
    // One use: the private half is gone.
    assert!(matches!(d.join(&welcome, &all), Err(MlsError::WelcomeRejected(_))));
}

/// Rule R4: whoever lost its state, or was restored from a copy, is removed and added again in one commit.
#[test]
fn readd_replaces_the_old_group() {
    let (mut a, mut b, mut c) = three();
    let fresh_rows = c.rows.len();
    let offer = c.offer();
    let staged = a
        .stage(&Change {
            add: vec![offer],
            remove: vec![c.id],
        })
        .unwrap();
    let view = a.merge_pending();
    let unjustified = b.merge(a.id, &staged.commit, &adds(&[&c]));
    assert!(matches!(unjustified, Err(MlsError::UnjustifiedRemove(_))));
    let justified = Justified {
        adds: roster(&[&c]),
        removes: [c.id].into(),
    };
    assert_eq!(b.merge(a.id, &staged.commit, &justified).unwrap().view, view);
    assert_eq!(c.join(&staged.welcome.unwrap(), &roster(&[&a, &b, &c])).unwrap(), view);
    assert_eq!(c.rows.len(), fresh_rows, "rows of the old leaf stay behind");
    assert_eq!(c.wrap_key().unwrap(), b.wrap_key().unwrap());
}

/// openmls#1804, mdk#207: founder and joiner both open messages of four past epochs, and not of five.
#[test]
fn four_past_epochs_open_on_both_sides() {
    let (mut a, mut b, mut c) = three();
    let send = |site: &mut Site| {
        site.run(|mls, _, key| {
            Ok(mls
                .load(&GROUP)?
                .create_message(mls, key, b"hello")
                .unwrap()
                .to_bytes()
                .unwrap())
        })
        .unwrap()
    };
    let (from_a, from_b) = (send(&mut a), send(&mut b));
    for epochs in 1..=PAST_EPOCHS + 1 {
        let staged = c.stage(&Change::default()).unwrap();
        c.merge_pending();
        for (receiver, message) in [(&mut a, &from_b), (&mut b, &from_a)] {
            receiver.merge(c.id, &staged.commit, &Justified::default()).unwrap();
            let opened = step(&receiver.rows, |mls| {
                let message = MlsMessageIn::tls_deserialize_exact(message).unwrap();
                let message: ProtocolMessage = message.try_into_protocol_message().unwrap();
                Ok::<_, MlsError>(mls.load(&GROUP)?.process_message(mls, message).is_ok())
            });
            assert_eq!(opened.unwrap().1, epochs <= PAST_EPOCHS, "{epochs} epochs later");
        }
    }
}

#[test]
fn past_epochs_expire_by_time() {
    let (mut a, ..) = three();
    a.run(|mls, _, _| mls.expire_past_epochs(&GROUP, u64::MAX / 2)).unwrap();
    assert_eq!(a.view().epoch, 2);
}

#[test]
fn leaving_deletes_every_row_of_the_group() {
    let (_, _, mut c) = three();
    c.run(|mls, _, _| mls.delete_group(&GROUP)).unwrap();
    assert!(c.rows.is_empty());
    assert!(matches!(c.run(|mls, _, _| mls.view(&GROUP)), Err(MlsError::NoGroup)));
}

#[test]
fn damaged_rows_are_an_error_and_no_panic() {
    let (a, ..) = three();
    struct Damaged<'a>(&'a MemoryRows);
    impl MlsRows for Damaged<'_> {
        fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
            Ok(self.0.get(key)?.map(|row| row[..row.len() / 2].to_vec()))
        }
    }
    let result = step(&Damaged(&a.rows), |mls| mls.view(&GROUP));
    assert!(matches!(result, Err(MlsError::Storage(StorageError::Damaged(_)))));
}

#[test]
fn secrets_do_not_print() {
    let (a, ..) = three();
    assert_eq!(format!("{:?}", a.key), "MlsKey(..)");
    let (writes, _) = step(&a.rows, |mls| mls.stage_change(&GROUP, &a.key, &Change::default())).unwrap();
    assert!(format!("{writes:?}").starts_with("MlsWrites("));
}

/// A length field beyond the end of the message is an error and not a failed assertion of the codec.
#[test]
fn length_beyond_the_end_is_refused() {
    let mut message = vec![0, 1, 0, 2];
    message.extend_from_slice(&[0xff; 8]);
    fuzz_message(&message);
    let (mut a, b, _) = three();
    let staged = a.stage(&Change::default()).unwrap();
    for at in 0..staged.commit.len() {
        let mut bad = staged.commit.clone();
        bad[at] = 0xee;
        fuzz_message(&bad);
        let result = step(&b.rows, |mls| {
            mls.merge_commit(&GROUP, &bad, a.id, &Justified::default())
        });
        assert!(result.is_err() || bad == staged.commit, "byte {at}");
    }
}

/// Every changed byte of a Welcome or a key package is refused without a panic.
#[test]
fn changed_welcomes_and_key_packages_are_refused() {
    let (mut a, b, c) = three();
    let mut d = Site::new(4);
    let offer = d.offer();
    let staged = a
        .stage(&Change {
            add: vec![offer.clone()],
            remove: vec![],
        })
        .unwrap();
    let welcome = staged.welcome.unwrap();
    let all = roster(&[&a, &b, &c, &d]);
    for at in (0..welcome.len()).step_by(7) {
        let mut bad = welcome.clone();
        bad[at] ^= 0x55;
        let check = JoinCheck {
            group_id: &GROUP,
            roster: &all,
        };
        assert!(
            step(&d.rows, |mls| mls.join(&bad, &check)).is_err(),
            "byte {at} of the welcome"
        );
    }
    for at in 0..offer.key_package.len() {
        let mut bad = offer.clone();
        bad.key_package[at] ^= 0x55;
        assert!(check_offer(&bad).is_err(), "byte {at} of the key package");
    }
    assert!(check_offer(&offer).is_ok());
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        fuzz_message(&bytes);
    }

    /// Every changed byte of a commit is refused and changes nothing.
    #[test]
    fn changed_commits_are_refused(at: proptest::sample::Index, flip in 1..=255u8) {
        thread_local! {
            static SETUP: (Site, Site, Vec<u8>) = {
                let (mut a, b, _) = three();
                let staged = a.stage(&Change::default()).unwrap();
                (a, b, staged.commit)
            };
        }
        SETUP.with(|(a, b, commit)| {
            let mut bad = commit.clone();
            let at = at.index(bad.len());
            bad[at] ^= flip;
            fuzz_message(&bad);
            let result = step(&b.rows, |mls| mls.merge_commit(&GROUP, &bad, a.id, &Justified::default()));
            assert!(result.is_err());
        });
    }
}
