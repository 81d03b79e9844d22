//! Record batches: read, checked, rewritten in place, and damaged in every way.

use std::io::Write;

use bytes::{Bytes, BytesMut};
use kafka_protocol::records::{RecordBatchDecoder, TimestampType};
use proptest::prelude::*;
use rota_log::{
    Batch, BatchError, BatchHeader, BatchWriter, Compression, HEADER_BYTES, batches, decompress, rewrite_header,
    stamp_append_time,
};

fn batch_of(values: &[&str]) -> Bytes {
    let mut writer = BatchWriter::default();
    for (at, value) in values.iter().enumerate() {
        writer.push(1_000 + at as i64, Some(b"k"), Some(value.as_bytes()));
    }
    writer.finish()
}

/// The same batch with its records behind `codec`, as a client would send it.
fn compressed(batch: &Bytes, codec: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = batch[..HEADER_BYTES].to_vec();
    bytes.extend_from_slice(payload);
    let length = (bytes.len() - 12) as i32;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[22] |= codec;
    resum(&mut bytes);
    bytes
}

fn resum(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
}

fn snappy_java(payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for block in payload.chunks(7) {
        let block = snap::raw::Encoder::new().compress_vec(block).unwrap();
        bytes.extend_from_slice(&(block.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&block);
    }
    bytes
}

fn encodings(payload: &[u8]) -> Vec<(u8, Compression, Vec<u8>)> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(payload).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(payload).unwrap();
    vec![
        (1, Compression::Gzip, gzip.finish().unwrap()),
        (2, Compression::Snappy, snap::raw::Encoder::new().compress_vec(payload).unwrap()),
        (2, Compression::Snappy, snappy_java(payload)),
        (3, Compression::Lz4, lz4.finish().unwrap()),
        (4, Compression::Zstd, ruzstd::encoding::compress_to_vec(payload, ruzstd::encoding::CompressionLevel::Fastest)),
    ]
}

#[test]
fn a_written_batch_reads_back_here_and_in_kafka_protocol() {
    let mut writer = BatchWriter::default();
    (writer.base_offset, writer.leader_epoch, writer.producer) = (40, 3, Some((9, 2, 5)));
    writer.push(2_000, None, Some(b"v"));
    writer.push(1_000, Some(b""), None);
    let bytes = writer.finish();

    let (batch, rest) = Batch::split(&bytes).unwrap();
    assert!(rest.is_empty());
    batch.validate().unwrap();
    let header = batch.header();
    assert_eq!((header.base_offset, header.last_offset(), header.leader_epoch), (40, 41, 3));
    assert_eq!((header.base_timestamp_ms, header.max_timestamp_ms, header.record_count), (2_000, 2_000, 2));
    assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (9, 2, 5));
    let payload = batch.payload(usize::MAX).unwrap();
    let records: Vec<_> = batch
        .records_in(&payload)
        .map(Result::unwrap)
        .map(|record| (batch.offset(&record), batch.timestamp_ms(&record), record.key, record.value))
        .collect();
    assert_eq!(records, [(40, 2_000, None, Some(&b"v"[..])), (41, 1_000, Some(&b""[..]), None)]);

    let theirs = RecordBatchDecoder::decode(&mut bytes.clone()).unwrap();
    let theirs: Vec<_> =
        theirs.records.iter().map(|r| (r.offset, r.timestamp, r.key.clone(), r.value.clone())).collect();
    assert_eq!(theirs, [(40, 2_000, None, Some(Bytes::from("v"))), (41, 1_000, Some(Bytes::new()), None)]);
}

#[test]
fn batches_of_a_payload_come_one_by_one() {
    let payload = [batch_of(&["a"]), batch_of(&["b", "c"])].concat();
    let counts: Vec<i32> = batches(&payload).map(|batch| batch.unwrap().header().record_count).collect();
    assert_eq!(counts, [1, 2]);
}

#[test]
fn a_cut_second_batch_is_an_error_and_the_end() {
    let payload = [batch_of(&["a"]), batch_of(&["b"])].concat();
    let mut found = batches(&payload[..payload.len() - 1]);
    assert!(found.next().unwrap().is_ok());
    assert!(matches!(found.next(), Some(Err(BatchError::Truncated { .. }))));
    assert!(found.next().is_none());
}

#[test]
fn offset_and_epoch_are_written_in_place_under_the_same_checksum() {
    let mut bytes = BytesMut::from(&batch_of(&["a", "b"])[..]);
    rewrite_header(&mut bytes, i64::MAX - 1, 7);
    let (batch, _) = Batch::split(&bytes).unwrap();
    batch.validate().unwrap();
    assert_eq!((batch.header().base_offset, batch.header().leader_epoch), (i64::MAX - 1, 7));
}

#[test]
fn append_time_is_stamped_under_a_new_checksum() {
    let mut bytes = BytesMut::from(&batch_of(&["a", "b"])[..]);
    stamp_append_time(&mut bytes, 99);
    let (batch, _) = Batch::split(&bytes).unwrap();
    batch.validate().unwrap();
    assert!(batch.header().is_log_append_time());
    let record = batch.records_in(&bytes[HEADER_BYTES..]).next().unwrap().unwrap();
    assert_eq!(batch.timestamp_ms(&record), 99);
    let theirs = RecordBatchDecoder::decode_batch_info(&mut bytes.freeze()).unwrap();
    assert_eq!(theirs[0].timestamp_type, TimestampType::LogAppend);
}

#[test]
fn each_damage_has_its_error() {
    let good = batch_of(&["a", "b"]).to_vec();
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        if at > 20 {
            resum(&mut bad);
        }
        bad
    };
    let check = |bytes: &[u8]| Batch::split(bytes).and_then(|(batch, _)| batch.validate()).unwrap_err();
    assert_eq!(check(&with(16, &[1])), BatchError::UnsupportedMagic { magic: 1 });
    assert_eq!(check(&with(8, &48_i32.to_be_bytes())), BatchError::BadLength { length: 48 });
    assert_eq!(check(&with(8, &(-1_i32).to_be_bytes())), BatchError::BadLength { length: -1 });
    assert!(matches!(check(&with(8, &i32::MAX.to_be_bytes())), BatchError::Truncated { .. }));
    assert!(matches!(check(&with(17, &[0, 0, 0, 0])), BatchError::BadChecksum { stored: 0, .. }));
    assert_eq!(check(&with(21, &7_i16.to_be_bytes())), BatchError::UnknownCompression { codec: 7 });
    for (at, value) in [(57, 0_i32), (57, -1), (57, 3), (23, i32::MAX), (23, -1)] {
        assert!(matches!(check(&with(at, &value.to_be_bytes())), BatchError::BadRecordCount { .. }), "{at} {value}");
    }
    // The second record says that it is the first.
    let second = good.len() - 8;
    assert_eq!(good[second + 2], 2, "the offset delta 1 of the second record, zigzag");
    assert_eq!(check(&with(second + 2, &[0])), BatchError::BadRecord { index: 1, field: "offset delta" });
    assert_eq!(check(&good[..10]), BatchError::Truncated { needed_bytes: HEADER_BYTES, available_bytes: 10 });
}

#[test]
fn every_codec_decompresses_to_the_same_records() {
    let plain = batch_of(&["first", "second", "third"]);
    for (bits, codec, payload) in encodings(&plain[HEADER_BYTES..]) {
        let bytes = compressed(&plain, bits, &payload);
        let (batch, _) = Batch::split(&bytes).unwrap();
        batch.validate().unwrap();
        assert_eq!(batch.header().compression(), Ok(codec));
        let payload = batch.payload(1 << 20).unwrap();
        assert_eq!(&payload[..], &plain[HEADER_BYTES..], "{codec:?}");
        let values: Vec<_> = batch.records_in(&payload).map(|record| record.unwrap().value.unwrap()).collect();
        assert_eq!(values, [&b"first"[..], b"second", b"third"]);
    }
}

#[test]
fn decompression_stops_at_its_limit() {
    let zeroes = vec![0; 1 << 20];
    for (_, codec, payload) in encodings(&zeroes) {
        assert_eq!(decompress(codec, &payload, 1 << 20).unwrap().len(), 1 << 20);
        let refused = decompress(codec, &payload, (1 << 20) - 1);
        assert_eq!(refused, Err(BatchError::TooLargeDecompressed { limit_bytes: (1 << 20) - 1 }), "{codec:?}");
    }
}

#[test]
fn a_snappy_block_that_claims_gigabytes_is_refused_unread() {
    let claim = [0xff, 0xff, 0xff, 0xff, 0x0f, 0x00];
    assert_eq!(
        decompress(Compression::Snappy, &claim, 1 << 20),
        Err(BatchError::TooLargeDecompressed { limit_bytes: 1 << 20 })
    );
}

#[test]
fn sequence_numbers_go_round_after_the_greatest() {
    let mut writer = BatchWriter::default();
    writer.producer = Some((1, 0, i32::MAX));
    writer.push(1, None, None);
    writer.push(1, None, None);
    assert_eq!(BatchHeader::read(&writer.finish()).unwrap().last_sequence(), 0);
}

/// Whatever the bytes: no panic, and what validates can be walked to its end.
fn probe(bytes: &[u8]) {
    for batch in batches(bytes) {
        let Ok(batch) = batch else { break };
        let valid = batch.validate().is_ok();
        let Ok(payload) = batch.payload(1 << 20) else { continue };
        let read = batch.records_in(&payload).flatten().count();
        if valid && batch.header().compression() == Ok(Compression::None) {
            assert_eq!(read, batch.header().record_count as usize);
        }
    }
}

#[test]
fn two_hundred_thousand_mutations_of_good_batches_do_not_panic() {
    let plain = batch_of(&["first", "second", "third"]);
    let mut seeds: Vec<Vec<u8>> = vec![plain.to_vec()];
    seeds.extend(encodings(&plain[HEADER_BYTES..]).iter().map(|(bits, _, payload)| compressed(&plain, *bits, payload)));
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut still_valid = 0;
    for round in 0..200_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            bytes[at] = [0, 1, 0x7f, 0x80, 0xff, random(256) as u8][random(6)];
        }
        if random(4) == 0 {
            bytes.truncate(random(bytes.len()));
        }
        // A matching checksum lets the mutation through to what lies behind it.
        if bytes.len() > HEADER_BYTES && random(8) > 0 {
            resum(&mut bytes);
        }
        still_valid += usize::from(Batch::split(&bytes).is_ok_and(|(batch, _)| batch.validate().is_ok()));
        probe(&bytes);
    }
    assert!(still_valid > 10_000, "the mutations must reach behind the header: {still_valid}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_do_not_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(magic) = bytes.get_mut(16) {
            *magic = 2;
        }
        probe(&bytes);
        for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
            drop(decompress(codec, &bytes, 1 << 16));
        }
    }

    #[test]
    fn what_is_written_is_read(
        records in prop::collection::vec(
            (
                0_i64..1 << 50,
                prop::option::of(prop::collection::vec(any::<u8>(), 0..80)),
                prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
                prop::collection::vec(("[aä]{0,3}", prop::option::of(prop::collection::vec(any::<u8>(), 0..9))), 0..3),
            ),
            1..20,
        ),
    ) {
        let mut writer = BatchWriter::default();
        for (timestamp_ms, key, value, headers) in &records {
            writer.push_with_headers(*timestamp_ms, key.as_deref(), value.as_deref(), headers);
        }
        let bytes = writer.finish();
        let (batch, _) = Batch::split(&bytes).unwrap();
        prop_assert_eq!(batch.validate(), Ok(()));
        let read: Vec<_> = batch
            .records_in(&bytes[HEADER_BYTES..])
            .map(Result::unwrap)
            .map(|r| {
                let header = |(name, value): (&[u8], Option<&[u8]>)| {
                    (String::from_utf8(name.to_vec()).unwrap(), value.map(<[u8]>::to_vec))
                };
                let headers: Vec<_> = r.headers().map(header).collect();
                (batch.timestamp_ms(&r), r.key.map(<[u8]>::to_vec), r.value.map(<[u8]>::to_vec), headers)
            })
            .collect();
        prop_assert_eq!(read, records);
    }
}
