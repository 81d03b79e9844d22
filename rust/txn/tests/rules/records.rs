//! The bytes of records (§8): Kafka 4.4.0 wrote those with a comment, and others of the same form.

use std::collections::BTreeSet;

use rota_txn::{
    Participant, Producer, State, Transaction, TransactionVersion,
    record::{self, ValueVersion},
};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn participants(named: &[(&str, i32)]) -> BTreeSet<Participant> {
    named.iter().map(|(topic, partition)| Participant::new(*topic, *partition)).collect()
}

fn empty(producer_id: i64, updated_ms: i64) -> Transaction {
    Transaction {
        previous_producer_id: producer_id,
        producer: Producer { id: producer_id, epoch: 0 },
        timeout_ms: 60_000,
        updated_ms,
        ..Transaction::new(producer_id)
    }
}

/// Each record as Kafka 4.4.0 wrote it, with what it says.
fn written_by_kafka() -> Vec<(&'static str, ValueVersion, &'static str, Transaction)> {
    let ongoing = Transaction {
        state: State::Ongoing,
        version: TransactionVersion::V2,
        participants: participants(&[("t", 0)]),
        start_ms: 0x1a2_043b_25cc,
        ..empty(670, 0x1a2_043b_25cc)
    };
    let complete = Transaction {
        state: State::CompleteAbort,
        producer: Producer { id: 670, epoch: 1 },
        participants: BTreeSet::new(),
        updated_ms: 0x1a2_043b_25d5,
        ..ongoing.clone()
    };
    let level_0 = Transaction {
        state: State::Ongoing,
        previous_producer_id: -1,
        participants: participants(&[("t", 0)]),
        start_ms: 0x1a2_043e_0806,
        ..empty(4, 0x1a2_043e_0806)
    };
    vec![
        (
            "Empty, first protocol",
            ValueVersion::V1,
            "0001 000000000000029d 0000 0000ea60 00 00 000001a2043b22ab ffffffffffffffff 01 00 08 000000000000029d",
            empty(669, 0x1a2_043b_22ab),
        ),
        (
            "Ongoing, second protocol",
            ValueVersion::V1,
            "0001 000000000000029e 0000 0000ea60 01 02 02 74 02 00000000 00 000001a2043b25cc 000001a2043b25cc \
             02 00 08 000000000000029e 02 02 0002",
            ongoing,
        ),
        (
            "CompleteAbort, second protocol",
            ValueVersion::V1,
            "0001 000000000000029e 0001 0000ea60 05 01 000001a2043b25d5 000001a2043b25cc \
             02 00 08 000000000000029e 02 02 0002",
            complete,
        ),
        (
            "Empty at level 0",
            ValueVersion::V0,
            "0000 0000000000000004 0000 0000ea60 00 ffffffff 000001a2043e064a ffffffffffffffff",
            Transaction { previous_producer_id: -1, ..empty(4, 0x1a2_043e_064a) },
        ),
        (
            "Ongoing at level 0",
            ValueVersion::V0,
            "0000 0000000000000004 0000 0000ea60 01 00000001 0001 74 00000001 00000000 000001a2043e0806 \
             000001a2043e0806",
            level_0,
        ),
    ]
}

#[test]
fn values_are_those_of_kafka() {
    for (name, version, hex, transaction) in written_by_kafka() {
        assert_eq!(record::value(&transaction, version), bytes(hex), "{name}");
        assert_eq!(record::read_value(&bytes(hex)).as_ref(), Ok(&transaction), "{name}");
    }
}

#[test]
fn a_key_is_that_of_kafka() {
    let key = bytes("0000 0007 7265632d747631");
    assert_eq!(record::key("rec-tv1"), key);
    assert_eq!(record::read_key(&key), Ok(Some("rec-tv1")));
    assert_eq!(record::read_key(&bytes("0001 00")), Ok(None), "a key of another version");
}

#[test]
fn an_overflow_and_several_topics_lead_back_to_themselves() {
    let overflow = Transaction {
        state: State::PrepareCommit,
        producer: Producer { id: 1, epoch: i16::MAX },
        next_producer_id: 2,
        version: TransactionVersion::V2,
        participants: participants(&[("t", 0), ("t", 3), ("__consumer_offsets", 1), ("u", 0)]),
        start_ms: 5,
        ..empty(1, 6)
    };
    assert_eq!(record::read_value(&record::value(&overflow, ValueVersion::V1)), Ok(overflow.clone()));
    let plain =
        Transaction { next_producer_id: -1, previous_producer_id: -1, version: TransactionVersion::V1, ..overflow };
    assert_eq!(record::read_value(&record::value(&plain, ValueVersion::V0)), Ok(plain));
}

#[test]
fn a_record_that_is_cut_or_changed_is_an_error_or_another_record_but_no_panic() {
    for (name, _, hex, _) in written_by_kafka() {
        let whole = bytes(hex);
        for end in 0..whole.len() {
            assert!(record::read_value(&whole[..end]).is_err(), "{name}: the first {end} bytes");
        }
        assert!(record::read_value(&[whole.as_slice(), &[0]].concat()).is_err(), "{name}: a byte more");
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _any = record::read_value(&changed);
            }
        }
    }
    let errors = [("0002", "value version"), ("0001 00", "producer id")];
    for (hex, field) in errors {
        assert_eq!(record::read_value(&bytes(hex)).map_err(|error| error.field), Err(field));
    }
}

#[test]
fn a_count_of_more_than_32_bits_is_refused() {
    // The tagged fields of "Empty, first protocol", with their count in five bytes.
    let start = "0001 000000000000029d 0000 0000ea60 00 00 000001a2043b22ab ffffffffffffffff";
    let tag = "00 08 000000000000029d";
    assert!(record::read_value(&bytes(&format!("{start} 8180808000 {tag}"))).is_ok());
    let refused = record::read_value(&bytes(&format!("{start} 8180808010 {tag}"))).expect_err("2^32 + 1 tagged fields");
    assert_eq!(refused.to_string(), "a record of __transaction_state: tagged fields: a varint is longer than 32 bits");
}
