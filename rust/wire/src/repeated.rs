//! A request and its answer, kept for requests that are equal to it except for the correlation id.

use bytes::{BufMut, BytesMut};

/// API key and version.
const BEFORE_ID: usize = 4;
/// The correlation id, in requests after [`BEFORE_ID`], in answers after the length.
const ID: usize = 4;
const LENGTH: usize = 4;

/// Larger requests and answers are not kept.
pub const REPEATED_BYTES_MAX: usize = 1_024;

/// A request and its answer.
#[derive(Clone, Debug, Default)]
pub struct RepeatedRequest {
    /// The request, and then the answer, both without their correlation ids. One piece is one or two cache misses.
    bytes: Vec<u8>,
    request_bytes: usize,
}

impl RepeatedRequest {
    /// Keeps a request without its length field, and its whole answer, in place of those before. Returns whether it did:
    /// they must have headers, and at most [`REPEATED_BYTES_MAX`] bytes.
    pub fn keep(&mut self, frame: &[u8], answer: &[u8]) -> bool {
        self.bytes.clear();
        let (Some(rest), Some(answer_rest)) = (frame.get(BEFORE_ID + ID..), answer.get(LENGTH + ID..)) else {
            return false;
        };
        if rest.len() + answer_rest.len() > REPEATED_BYTES_MAX {
            return false;
        }
        self.bytes.extend_from_slice(&frame[..BEFORE_ID]);
        self.bytes.extend_from_slice(rest);
        self.request_bytes = self.bytes.len();
        self.bytes.extend_from_slice(&answer[..LENGTH]);
        self.bytes.extend_from_slice(answer_rest);
        true
    }

    /// Whether a frame, without its length field, is that request with any correlation id.
    #[inline]
    pub fn is(&self, frame: &[u8]) -> bool {
        let Some(kept) = self.bytes.get(..self.request_bytes).filter(|kept| kept.len() + ID == frame.len()) else {
            return false;
        };
        // What differs most comes first: the body of the request.
        kept[BEFORE_ID..] == frame[BEFORE_ID + ID..] && kept[..BEFORE_ID] == frame[..BEFORE_ID]
    }

    /// Writes the answer to a frame that [is](Self::is) that request.
    #[inline]
    pub fn answer(&self, frame: &[u8], out: &mut BytesMut) {
        let (length, rest) = self.bytes[self.request_bytes..].split_at(LENGTH);
        out.reserve(LENGTH + ID + rest.len());
        out.put_slice(length);
        out.put_slice(&frame[BEFORE_ID..BEFORE_ID + ID]);
        out.put_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"\x00\x44\x00\x01\x00\x00\x00\x07\x00\x01cbody";
    const ANSWER: &[u8] = b"\x00\x00\x00\x0a\x00\x00\x00\x07answer";

    #[test]
    fn an_equal_request_gets_the_equal_answer_with_its_own_correlation_id() {
        let mut kept = RepeatedRequest::default();
        assert!(!kept.is(REQUEST), "nothing is kept");
        assert!(kept.keep(REQUEST, ANSWER));
        let mut again = REQUEST.to_vec();
        again[7] = 9;
        assert!(kept.is(REQUEST) && kept.is(&again));
        let mut out = BytesMut::from(&b"before"[..]);
        kept.answer(&again, &mut out);
        assert_eq!(&out[..], b"before\x00\x00\x00\x0a\x00\x00\x00\x09answer");
    }

    #[test]
    fn a_request_that_differs_anywhere_else_is_another() {
        let mut kept = RepeatedRequest::default();
        assert!(kept.keep(REQUEST, ANSWER));
        for at in 0..REQUEST.len() {
            let mut other = REQUEST.to_vec();
            other[at] ^= 1;
            assert_eq!(kept.is(&other), (BEFORE_ID..BEFORE_ID + ID).contains(&at), "byte {at}");
            assert!(!kept.is(&REQUEST[..at]));
        }
        assert!(!kept.is(&[REQUEST, b"\0"].concat()));
    }

    #[test]
    fn what_is_too_large_or_too_short_is_not_kept_and_what_was_kept_is_forgotten() {
        for (frame, answer) in [(&REQUEST[..7], ANSWER), (REQUEST, &ANSWER[..7]), (&[0; 2_000], ANSWER)] {
            let mut kept = RepeatedRequest::default();
            assert!(kept.keep(REQUEST, ANSWER));
            assert!(!kept.keep(frame, answer));
            assert!(!kept.is(REQUEST) && !kept.is(frame));
        }
    }
}
