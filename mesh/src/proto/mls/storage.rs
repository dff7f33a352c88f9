//! openmls' storage trait over the helpers of [`Overlay`]. No logic: one line per kind of row.

use openmls_traits::storage::{CURRENT_VERSION, StorageProvider, traits};

use super::overlay::{Overlay, Row, StorageError};

type Done = Result<(), StorageError>;
type Found<T> = Result<Option<T>, StorageError>;

/// Rows of which each group has one.
macro_rules! group_rows {
    ($($row:ident, $entity:ident: $write:ident, $read:ident, $delete:ident;)*) => {$(
        fn $write<G: traits::GroupId<CURRENT_VERSION>, V: traits::$entity<CURRENT_VERSION>>(
            &self,
            group: &G,
            value: &V,
        ) -> Done {
            self.write(Row::$row, group, value)
        }

        fn $read<G: traits::GroupId<CURRENT_VERSION>, V: traits::$entity<CURRENT_VERSION>>(
            &self,
            group: &G,
        ) -> Found<V> {
            self.read(Row::$row, group)
        }

        fn $delete<G: traits::GroupId<CURRENT_VERSION>>(&self, group: &G) -> Done {
            self.delete(Row::$row, group)
        }
    )*};
}

impl StorageProvider<CURRENT_VERSION> for Overlay<'_> {
    type Error = StorageError;

    group_rows! {
        JoinConfig, MlsGroupJoinConfig: write_mls_join_config, mls_group_join_config, delete_group_config;
        ConfirmationTag, ConfirmationTag: write_confirmation_tag, confirmation_tag, delete_confirmation_tag;
        Context, GroupContext: write_context, group_context, delete_context;
        EpochSecrets, GroupEpochSecrets:
            write_group_epoch_secrets, group_epoch_secrets, delete_group_epoch_secrets;
        InterimTranscriptHash, InterimTranscriptHash:
            write_interim_transcript_hash, interim_transcript_hash, delete_interim_transcript_hash;
        MessageSecrets, MessageSecrets: write_message_secrets, message_secrets, delete_message_secrets;
        OwnLeafIndex, LeafNodeIndex: write_own_leaf_index, own_leaf_index, delete_own_leaf_index;
        ResumptionPsks, ResumptionPskStore:
            write_resumption_psk_store, resumption_psk_store, delete_all_resumption_psk_secrets;
        Tree, TreeSync: write_tree, tree, delete_tree;
    }

    // The trait names the value before the group here, so the macro does not fit.
    fn write_group_state<V: traits::GroupState<CURRENT_VERSION>, G: traits::GroupId<CURRENT_VERSION>>(
        &self,
        group: &G,
        value: &V,
    ) -> Done {
        self.write(Row::GroupState, group, value)
    }

    fn group_state<V: traits::GroupState<CURRENT_VERSION>, G: traits::GroupId<CURRENT_VERSION>>(
        &self,
        group: &G,
    ) -> Found<V> {
        self.read(Row::GroupState, group)
    }

    fn delete_group_state<G: traits::GroupId<CURRENT_VERSION>>(&self, group: &G) -> Done {
        self.delete(Row::GroupState, group)
    }

    fn append_own_leaf_node<G: traits::GroupId<CURRENT_VERSION>, V: traits::LeafNode<CURRENT_VERSION>>(
        &self,
        group: &G,
        leaf: &V,
    ) -> Done {
        self.append(Row::OwnLeafNodes, group, leaf)
    }

    fn own_leaf_nodes<G: traits::GroupId<CURRENT_VERSION>, V: traits::LeafNode<CURRENT_VERSION>>(
        &self,
        group: &G,
    ) -> Result<Vec<V>, StorageError> {
        self.list(Row::OwnLeafNodes, group)
    }

    fn delete_own_leaf_nodes<G: traits::GroupId<CURRENT_VERSION>>(&self, group: &G) -> Done {
        self.delete(Row::OwnLeafNodes, group)
    }

    fn queue_proposal<
        G: traits::GroupId<CURRENT_VERSION>,
        R: traits::ProposalRef<CURRENT_VERSION>,
        V: traits::QueuedProposal<CURRENT_VERSION>,
    >(
        &self,
        group: &G,
        reference: &R,
        proposal: &V,
    ) -> Done {
        self.write(Row::Proposal, &(group, reference), proposal)?;
        self.append(Row::ProposalRefs, group, reference)
    }

    fn queued_proposal_refs<G: traits::GroupId<CURRENT_VERSION>, R: traits::ProposalRef<CURRENT_VERSION>>(
        &self,
        group: &G,
    ) -> Result<Vec<R>, StorageError> {
        self.list(Row::ProposalRefs, group)
    }

    fn queued_proposals<
        G: traits::GroupId<CURRENT_VERSION>,
        R: traits::ProposalRef<CURRENT_VERSION>,
        V: traits::QueuedProposal<CURRENT_VERSION>,
    >(
        &self,
        group: &G,
    ) -> Result<Vec<(R, V)>, StorageError> {
        let references: Vec<R> = self.list(Row::ProposalRefs, group)?;
        let mut found = Vec::with_capacity(references.len());
        for reference in references {
            if let Some(proposal) = self.read(Row::Proposal, &(group, &reference))? {
                found.push((reference, proposal));
            }
        }
        Ok(found)
    }

    fn remove_proposal<G: traits::GroupId<CURRENT_VERSION>, R: traits::ProposalRef<CURRENT_VERSION>>(
        &self,
        group: &G,
        reference: &R,
    ) -> Done {
        self.delete(Row::Proposal, &(group, reference))?;
        self.remove_item(Row::ProposalRefs, group, reference)
    }

    fn clear_proposal_queue<G: traits::GroupId<CURRENT_VERSION>, R: traits::ProposalRef<CURRENT_VERSION>>(
        &self,
        group: &G,
    ) -> Done {
        let references: Vec<R> = self.list(Row::ProposalRefs, group)?;
        for reference in references {
            self.delete(Row::Proposal, &(group, reference))?;
        }
        self.delete(Row::ProposalRefs, group)
    }

    fn write_signature_key_pair<
        K: traits::SignaturePublicKey<CURRENT_VERSION>,
        V: traits::SignatureKeyPair<CURRENT_VERSION>,
    >(
        &self,
        public: &K,
        pair: &V,
    ) -> Done {
        self.write(Row::SignatureKeyPair, public, pair)
    }

    fn signature_key_pair<
        K: traits::SignaturePublicKey<CURRENT_VERSION>,
        V: traits::SignatureKeyPair<CURRENT_VERSION>,
    >(
        &self,
        public: &K,
    ) -> Found<V> {
        self.read(Row::SignatureKeyPair, public)
    }

    fn delete_signature_key_pair<K: traits::SignaturePublicKey<CURRENT_VERSION>>(&self, public: &K) -> Done {
        self.delete(Row::SignatureKeyPair, public)
    }

    fn write_encryption_key_pair<K: traits::EncryptionKey<CURRENT_VERSION>, V: traits::HpkeKeyPair<CURRENT_VERSION>>(
        &self,
        public: &K,
        pair: &V,
    ) -> Done {
        self.write(Row::EncryptionKeyPair, public, pair)
    }

    fn encryption_key_pair<V: traits::HpkeKeyPair<CURRENT_VERSION>, K: traits::EncryptionKey<CURRENT_VERSION>>(
        &self,
        public: &K,
    ) -> Found<V> {
        self.read(Row::EncryptionKeyPair, public)
    }

    fn delete_encryption_key_pair<K: traits::EncryptionKey<CURRENT_VERSION>>(&self, public: &K) -> Done {
        self.delete(Row::EncryptionKeyPair, public)
    }

    fn write_encryption_epoch_key_pairs<
        G: traits::GroupId<CURRENT_VERSION>,
        E: traits::EpochKey<CURRENT_VERSION>,
        V: traits::HpkeKeyPair<CURRENT_VERSION>,
    >(
        &self,
        group: &G,
        epoch: &E,
        leaf: u32,
        pairs: &[V],
    ) -> Done {
        self.write(Row::EpochKeyPairs, &(group, epoch, leaf), &pairs)
    }

    fn encryption_epoch_key_pairs<
        G: traits::GroupId<CURRENT_VERSION>,
        E: traits::EpochKey<CURRENT_VERSION>,
        V: traits::HpkeKeyPair<CURRENT_VERSION>,
    >(
        &self,
        group: &G,
        epoch: &E,
        leaf: u32,
    ) -> Result<Vec<V>, StorageError> {
        Ok(self
            .read(Row::EpochKeyPairs, &(group, epoch, leaf))?
            .unwrap_or_default())
    }

    fn delete_encryption_epoch_key_pairs<G: traits::GroupId<CURRENT_VERSION>, E: traits::EpochKey<CURRENT_VERSION>>(
        &self,
        group: &G,
        epoch: &E,
        leaf: u32,
    ) -> Done {
        self.delete(Row::EpochKeyPairs, &(group, epoch, leaf))
    }

    fn write_key_package<K: traits::HashReference<CURRENT_VERSION>, V: traits::KeyPackage<CURRENT_VERSION>>(
        &self,
        reference: &K,
        package: &V,
    ) -> Done {
        self.write(Row::KeyPackage, reference, package)
    }

    fn key_package<K: traits::HashReference<CURRENT_VERSION>, V: traits::KeyPackage<CURRENT_VERSION>>(
        &self,
        reference: &K,
    ) -> Found<V> {
        self.read(Row::KeyPackage, reference)
    }

    fn delete_key_package<K: traits::HashReference<CURRENT_VERSION>>(&self, reference: &K) -> Done {
        self.delete(Row::KeyPackage, reference)
    }

    fn write_psk<K: traits::PskId<CURRENT_VERSION>, V: traits::PskBundle<CURRENT_VERSION>>(
        &self,
        id: &K,
        psk: &V,
    ) -> Done {
        self.write(Row::Psk, id, psk)
    }

    fn psk<V: traits::PskBundle<CURRENT_VERSION>, K: traits::PskId<CURRENT_VERSION>>(&self, id: &K) -> Found<V> {
        self.read(Row::Psk, id)
    }

    fn delete_psk<K: traits::PskId<CURRENT_VERSION>>(&self, id: &K) -> Done {
        self.delete(Row::Psk, id)
    }
}
