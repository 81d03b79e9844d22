//! Partitions come into being on disk with their first append.

use std::{collections::BTreeMap, sync::Arc};

use kafka_protocol::messages::ProduceRequest;
use rota_core::error::ErrorCode;
use rota_log::LogError;
use uuid::Uuid;

use super::{
    Topics,
    disk::OnDisk,
    partition_data::{DiskRecords, Records},
    produce::{check_batch, check_request},
    refusal::{BY_ID_SINCE, Refusal, refuse},
    verify::Transaction,
};

impl Topics {
    /// With a data directory, creates a partition on disk before the first append, and before the first transaction makes
    /// durable that it has some.
    pub(super) fn prepare_disk(
        &mut self,
        name: &str,
        place: (Uuid, i32),
        is_transactional: bool,
    ) -> Result<(), Refusal> {
        self.create_on_disk(name, place)?;
        if is_transactional
            && let Some(disk) = &self.owner.disk
            && let Some(Records::Disk(records)) = self.data.get_mut(&place).map(|partition| &mut partition.log)
            && !records.has_transactions
        {
            disk.begin_transactions(&records.on_disk).map_err(|error| Refusal::of_log(&error))?;
            records.has_transactions = true;
        }
        Ok(())
    }

    /// With a data directory, creates a partition on disk before the first append.
    fn create_on_disk(&mut self, name: &str, place: (Uuid, i32)) -> Result<(), Refusal> {
        let owner = Arc::clone(&self.owner);
        let Some(disk) = owner.disk.as_ref().filter(|_| !self.is_on_disk(&place)) else {
            return Ok(());
        };
        if let Some(reason) = self.taken_place(name, place.1) {
            return refuse(ErrorCode::KafkaStorageError, reason);
        }
        // The topic cannot be deleted meanwhile.
        let created = owner.while_there(place.0, || disk.create(name, place.0, place.1));
        let created = created.unwrap_or(Err(LogError::UnknownPartition { partition: place.1 }));
        let on_disk = created.map_err(|error| Refusal::of_log(&error))?;
        self.put_on_disk(place, on_disk);
        Ok(())
    }

    /// With a data directory, creates the partitions that a request is the first to append to, by two passes of the store for
    /// all of them. What fails here is tried again for its partition, which then has the error.
    pub(super) fn create_all_on_disk(&mut self, request: &ProduceRequest, transaction: Transaction<'_>) {
        let owner = Arc::clone(&self.owner);
        let Some(disk) = &owner.disk else { return };
        let mut missing = self.missing_on_disk(request, transaction);
        if missing.len() < 2 {
            return;
        }
        // The topics cannot be deleted meanwhile.
        let created = owner.while_published(|table| {
            missing.retain(|(id, _), _| table.name_by_id.contains_key(id));
            disk.create_all(&missing)
        });
        for (place, created) in missing.into_keys().zip(created) {
            if let Ok(on_disk) = created {
                self.put_on_disk(place, on_disk);
            }
        }
    }

    /// Returns the names of the topics of partitions that are not on disk, and to which a batch of the request may be appended.
    fn missing_on_disk(&self, request: &ProduceRequest, transaction: Transaction<'_>) -> BTreeMap<(Uuid, i32), String> {
        let mut missing = BTreeMap::new();
        let version = transaction.version;
        for asked in &request.topic_data {
            let Ok((name, topic)) = self.asked(version >= BY_ID_SINCE, &asked.name, asked.topic_id) else { continue };
            for data in &asked.partition_data {
                let place = (topic.id, data.index);
                if self.is_on_disk(&place) {
                    continue;
                }
                let checked = check_request(request, transaction)
                    .and_then(|()| check_batch(data.records.as_deref().unwrap_or_default(), version))
                    .and_then(|batch| self.check_new_batch((name, topic), data.index, &batch, transaction));
                if checked.is_ok() && self.taken_place(name, data.index).is_none() {
                    missing.insert(place, name.to_owned());
                }
            }
        }
        missing
    }

    fn is_on_disk(&self, place: &(Uuid, i32)) -> bool {
        self.data.get(place).is_some_and(|partition| matches!(partition.log, Records::Disk(_)))
    }

    /// Why a partition cannot be created; `None`: it can.
    fn taken_place(&self, name: &str, index: i32) -> Option<String> {
        self.owner.claims.get().and_then(|claims| claims.taken_place(name, index))
    }

    fn put_on_disk(&mut self, place: (Uuid, i32), on_disk: OnDisk) {
        self.data.entry(place).or_default().log = Records::Disk(DiskRecords::new(on_disk));
    }
}
