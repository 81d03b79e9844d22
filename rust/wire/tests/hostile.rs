//! Bytes that no client should send: each of them is refused or decoded, and none panics or makes the decoder
//! reserve what the bytes do not cover. A count that was believed would abort the process: no test survives that.

mod decoding;
mod frames;
mod samples;

use std::sync::atomic::Ordering;

use bytes::Bytes;
use decoding::decode_frame;
use frames::{count_panics, every_version, frame};
use kafka_protocol::messages::{FetchRequest, MetadataRequest};
use rota_wire::{
    Reader, RequestHeader, WireError, decode_body,
    frame::{FrameError, frame_length},
    limits::{ELEMENTS_MAX, GROUPS_MAX, ID_PREFIX_BYTES_MAX},
    line::{LINE_BYTES_MAX, Layout, Line},
    show,
    versions::{self, APIS},
};

/// Decodes a body behind the header of its frame.
fn decode(key: i16, version: i16, body: &[u8]) -> Result<(), WireError> {
    decode_frame(&frame(versions::find(key).unwrap(), version, body))
}

fn is_json(line: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(line).is_ok()
}

/// Numbers that are the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn every_sample_decodes_and_bytes_behind_it_are_ignored() {
    for (api, version) in every_version() {
        let mut body = samples::body(api, version);
        assert_eq!(decode(api.key, version, &body), Ok(()), "{} v{version}", api.name);
        body.extend_from_slice(b"whatever");
        assert_eq!(decode(api.key, version, &body), Ok(()), "{} v{version}", api.name);
    }
}

#[test]
fn every_sample_is_shown_and_shown_cut_wherever_it_is_cut() {
    for (api, version) in every_version() {
        let body = samples::body(api, version);
        let header = RequestHeader { api, version, correlation_id: 7, client_id: "client" };
        for layout in [Layout::Text, Layout::Json] {
            let shown = |body: &[u8]| {
                let mut line = Line::new(layout);
                show::request(&mut line, &header, body);
                line.finish()
            };
            assert!(!shown(&body).contains("undecodable"), "{} v{version}: {}", api.name, shown(&body));
            for end in 0..body.len() {
                let cut = shown(&body[..end]);
                assert!(cut.contains("undecodable"), "{} v{version} cut at {end}", api.name);
                assert!(layout == Layout::Text || is_json(&cut), "{} v{version} cut at {end}: {cut}", api.name);
            }
        }
    }
}

#[test]
fn bytes_of_any_kind_are_shown_without_a_panic_in_a_line_that_stays_short() {
    let (mut numbers, panics) = (Numbers(0x00c0_ffee), count_panics());
    for _ in 0..20_000 {
        let api = &APIS[numbers.below(APIS.len())];
        let version = api.served_from + numbers.below((api.max - api.served_from) as usize + 1) as i16;
        let mut body = samples::body(api, version);
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(body.len().max(1));
            if let Some(byte) = body.get_mut(at) {
                *byte = numbers.below(256) as u8;
            }
        }
        let header = RequestHeader { api, version, correlation_id: 7, client_id: "client" };
        for layout in [Layout::Text, Layout::Json] {
            let mut line = Line::new(layout);
            show::request(&mut line, &header, &body);
            show::answer(&mut line, api, version, &body);
            let line = line.finish();
            assert!(line.len() < 2 * LINE_BYTES_MAX && !line.contains(char::is_control), "{line}");
            assert!(layout == Layout::Text || is_json(&line), "{line}");
        }
    }
    assert_eq!(panics.load(Ordering::Relaxed), 0);
}

#[test]
fn a_request_that_ends_early_is_refused_wherever_it_ends() {
    for (api, version) in every_version() {
        let body = samples::body(api, version);
        for end in 0..body.len() {
            assert!(decode(api.key, version, &body[..end]).is_err(), "{} v{version} cut at {end}", api.name);
        }
    }
}

#[test]
fn a_header_that_ends_early_is_refused_wherever_it_ends() {
    for (api, version) in every_version() {
        let frame = frame(api, version, &[]);
        for end in 0..frame.len() {
            assert!(RequestHeader::read(&frame[..end]).is_err(), "{} v{version} cut at {end}", api.name);
        }
    }
}

#[test]
fn a_hostile_length_at_any_place_of_any_request_is_refused_or_harmless() {
    let lengths: [&[u8]; 5] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xfe],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0x00, 0x0f, 0x42, 0x41],
    ];
    for (api, version) in every_version() {
        let body = samples::body(api, version);
        for at in 0..body.len() {
            for length in lengths {
                let mut hostile = body[..at].to_vec();
                hostile.extend_from_slice(length);
                hostile.extend_from_slice(&body[at..]);
                // It may decode, as a timeout, say. It may not panic, nor reserve gigabytes.
                let _either = decode(api.key, version, &hostile);
            }
        }
    }
}

#[test]
fn a_tagged_field_that_lies_about_its_size_is_refused() {
    // Fetch v17: `replica_directory_id` is 16 bytes and says 0, so that the codec would read on elsewhere.
    let body = samples::body(versions::find(versions::FETCH).unwrap(), 17);
    let size_at = body.windows(3).position(|bytes| bytes == [1, 0, 16]).unwrap() + 2;
    let mut lying = body.clone();
    lying[size_at] = 0;
    let refused = decode_body::<FetchRequest>(versions::FETCH, 17, &Bytes::from(lying));
    assert_eq!(refused.unwrap_err(), WireError::BadTag { field: "replica_directory_id" });
    assert!(decode_body::<FetchRequest>(versions::FETCH, 17, &Bytes::from(body)).is_ok());
}

#[test]
fn a_request_may_not_hold_more_elements_than_the_limit() {
    let filled = |count: u32| {
        let mut body = count.to_be_bytes().to_vec();
        body.resize(4 + 2 * count as usize, 0);
        body
    };
    assert!(decode(versions::METADATA, 1, &filled(ELEMENTS_MAX)).is_ok());
    let refused = decode_body::<MetadataRequest>(versions::METADATA, 1, &Bytes::from(filled(ELEMENTS_MAX + 1)));
    assert_eq!(refused.unwrap_err(), WireError::TooManyElements { field: "topics" });
}

#[test]
fn a_request_whose_tagged_fields_are_kept_may_not_hold_more_of_them_than_the_limit() {
    let tagged = |count: u32| {
        // No topics, three flags, and then nothing but unknown tags, each of them empty.
        let mut body = vec![1, 0, 0, 0];
        let varint = |body: &mut Vec<u8>, mut value: u32| {
            while value >= 0x80 {
                body.push((value & 0x7f) as u8 | 0x80);
                value >>= 7;
            }
            body.push(value as u8);
        };
        varint(&mut body, count);
        for tag in 0..count {
            varint(&mut body, tag);
            body.push(0);
        }
        Bytes::from(body)
    };
    assert!(decode_body::<MetadataRequest>(versions::METADATA, 9, &tagged(ELEMENTS_MAX)).is_ok());
    let refused = decode_body::<MetadataRequest>(versions::METADATA, 9, &tagged(ELEMENTS_MAX + 1));
    assert_eq!(refused.unwrap_err(), WireError::TooManyElements { field: "_tagged_fields" });
}

#[test]
fn a_request_may_not_name_more_groups_than_the_limit() {
    let too_many = Err(WireError::TooManyElements { field: "groups" });
    for (groups, expected) in [(GROUPS_MAX, Ok(())), (GROUPS_MAX + 1, too_many)] {
        let mut describe = (groups as u32).to_be_bytes().to_vec();
        describe.resize(4 + 2 * groups, 0);
        assert_eq!(decode(versions::DESCRIBE_GROUPS, 0, &describe), expected);
        assert_eq!(decode(versions::DELETE_GROUPS, 0, &describe), expected);
        let mut compact_count = Vec::new();
        let mut count = groups as u32 + 1;
        while count >= 0x80 {
            compact_count.push((count & 0x7f) as u8 | 0x80);
            count >>= 7;
        }
        compact_count.push(count as u8);
        // The type of the keys; each key empty, no tagged fields.
        let mut find = vec![0];
        find.extend_from_slice(&compact_count);
        find.resize(find.len() + groups, 1);
        find.push(0);
        let found = decode(versions::FIND_COORDINATOR, 4, &find);
        assert_eq!(found, expected.map_err(|_| WireError::TooManyElements { field: "coordinator_keys" }));
        // Each group an empty id, no topic list, no tagged fields.
        let mut fetch = compact_count;
        fetch.extend(std::iter::repeat_n([1, 0, 0], groups).flatten());
        fetch.extend_from_slice(&[0, 0]);
        assert_eq!(decode(versions::OFFSET_FETCH, 8, &fetch), expected);
    }
}

#[test]
fn a_frame_is_between_one_byte_and_the_maximum() {
    let error = |length: i32| Err(FrameError { length, max_bytes: 100 });
    assert_eq!(frame_length(&[0, 0, 0], 100), Ok(None));
    assert_eq!(frame_length(&1_i32.to_be_bytes(), 100), Ok(Some(1)));
    assert_eq!(frame_length(&100_i32.to_be_bytes(), 100), Ok(Some(100)));
    for length in [0, -1, i32::MIN, 101, i32::MAX] {
        assert_eq!(frame_length(&length.to_be_bytes(), 100), error(length));
    }
}

#[test]
fn a_null_client_id_reads_as_an_empty_one() {
    let mut frame = 12_i16.to_be_bytes().to_vec();
    frame.extend_from_slice(&[0, 0, 0, 0, 0, 9, 0xff, 0xff, b'x']);
    let (header, body) = RequestHeader::read(&frame).unwrap();
    assert_eq!((header.client_id, header.correlation_id, body), ("", 9, &b"x"[..]));
}

#[test]
fn an_unserved_key_or_version_is_an_error_except_for_api_versions() {
    let header = |key: i16, version: i16| {
        let mut frame = key.to_be_bytes().to_vec();
        frame.extend_from_slice(&version.to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0, 1, 0xff, 0xff, 0]);
        RequestHeader::read(&frame).map(|(header, _)| header.version)
    };
    for (api_key, version) in [(99, 0), (-1, 0), (12, 5), (12, -1), (8, 1), (8, 11), (0, 2)] {
        assert_eq!(header(api_key, version), Err(WireError::Unsupported { api_key, version }));
    }
    for version in [0, 5, 6, i16::MAX] {
        assert_eq!(header(18, version), Ok(version));
    }
}

#[test]
fn a_client_id_leaves_room_for_the_member_id_that_is_minted_from_it() {
    for (length, fits) in [(ID_PREFIX_BYTES_MAX, true), (ID_PREFIX_BYTES_MAX + 1, false)] {
        let mut frame = vec![0, 12, 0, 0, 0, 0, 0, 9];
        frame.extend_from_slice(&(length as i16).to_be_bytes());
        frame.resize(frame.len() + length, b'c');
        assert_eq!(RequestHeader::read(&frame).is_ok(), fits);
    }
}

#[test]
fn a_variable_length_integer_ends_after_five_bytes_and_fits_31_bits() {
    let read = |bytes: &[u8]| Reader::new(bytes, true).varint("n");
    assert_eq!(read(&[0x7f]), Ok(127));
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x07]), Ok(i32::MAX as u32));
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Err(WireError::BadVarint { field: "n" }));
    assert_eq!(read(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x01]), Err(WireError::BadVarint { field: "n" }));
    assert_eq!(read(&[0x80]), Err(WireError::Truncated { field: "n" }));
}
