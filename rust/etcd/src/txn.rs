//! Transactions: how they are written, and how their answers are read.

use bytes::Bytes;
use rota_engine::Revision;

use crate::{
    keys::KeyRange,
    proto::{
        Compare, CompareResult, CompareTarget, DeleteRangeRequest, KeyValue, Op, OpAnswer, Operand, PutRequest,
        RangeRequest, RequestOp, ResponseOp, TxnRequest, TxnResponse,
    },
    values::Value,
};

/// An answer that does not have the shape that its request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

// ---- Comparisons. All of a transaction, nested ones included, are made before any write.

fn compare(result: CompareResult, target: CompareTarget, key: Bytes, operand: Operand) -> Compare {
    Compare { result: result as i32, target: target as i32, key, operand: Some(operand) }
}

/// The key has this value. False of a key that is absent.
pub fn has_value(key: Bytes, value: Bytes) -> Compare {
    compare(CompareResult::Equal, CompareTarget::Value, key, Operand::Value(value))
}

/// The key has another value. False of a key that is absent.
pub fn has_other_value(key: Bytes, value: Bytes) -> Compare {
    compare(CompareResult::NotEqual, CompareTarget::Value, key, Operand::Value(value))
}

/// The key's value comes before this one. False of a key that is absent.
pub fn is_less(key: Bytes, value: Bytes) -> Compare {
    compare(CompareResult::Less, CompareTarget::Value, key, Operand::Value(value))
}

/// The key's value comes after this one. False of a key that is absent.
pub fn is_greater(key: Bytes, value: Bytes) -> Compare {
    compare(CompareResult::Greater, CompareTarget::Value, key, Operand::Value(value))
}

/// The key is absent.
pub fn is_absent(key: Bytes) -> Compare {
    compare(CompareResult::Equal, CompareTarget::Version, key, Operand::Version(0))
}

/// The key is there.
pub fn is_present(key: Bytes) -> Compare {
    compare(CompareResult::Greater, CompareTarget::Version, key, Operand::Version(0))
}

/// Never holds.
pub fn never(key: Bytes) -> Compare {
    compare(CompareResult::Less, CompareTarget::Version, key, Operand::Version(0))
}

/// The key was written at this revision.
pub fn was_written(key: Bytes, revision: Revision) -> Compare {
    // An absent key compares as written at revision 0, which etcd gives to no write.
    let revision = if revision == Revision(0) { -1 } else { revision.0 as i64 };
    compare(CompareResult::Equal, CompareTarget::Mod, key, Operand::ModRevision(revision))
}

/// The key has this value, or is absent.
pub fn is_found(key: Bytes, value: Option<&impl Value>) -> Compare {
    match value {
        Some(value) => has_value(key, value.encode()),
        None => is_absent(key),
    }
}

// ---- Operations

fn operation(op: Op) -> RequestOp {
    RequestOp { request: Some(op) }
}

/// Writes a key.
pub fn put(key: Bytes, value: Bytes) -> RequestOp {
    operation(Op::Put(PutRequest { key, value }))
}

/// Reads a key.
pub fn get(key: Bytes) -> RequestOp {
    operation(Op::Range(RangeRequest { key, ..RangeRequest::default() }))
}

/// Reads keys.
pub fn range(keys: KeyRange, limit: i64) -> RequestOp {
    operation(Op::Range(RangeRequest { key: keys.start, range_end: keys.end, limit, ..RangeRequest::default() }))
}

/// Reads keys and the revisions that wrote them, without their values.
pub fn names(keys: KeyRange) -> RequestOp {
    let KeyRange { start, end } = keys;
    operation(Op::Range(RangeRequest { key: start, range_end: end, keys_only: true, ..RangeRequest::default() }))
}

/// Deletes keys.
pub fn delete(keys: KeyRange) -> RequestOp {
    operation(Op::DeleteRange(DeleteRangeRequest { key: keys.start, range_end: keys.end }))
}

/// Deletes a key.
pub fn delete_key(key: Bytes) -> RequestOp {
    operation(Op::DeleteRange(DeleteRangeRequest { key, range_end: Bytes::new() }))
}

/// A nested transaction.
pub fn nested(txn: TxnRequest) -> RequestOp {
    operation(Op::Txn(txn))
}

/// If all comparisons hold, then `success`, else `failure`.
pub fn when(compare: Vec<Compare>, success: Vec<RequestOp>, failure: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { compare, success, failure }
}

// ---- Answers

/// The revision after the transaction.
pub fn revision(answer: &TxnResponse) -> Result<Revision, Malformed> {
    let header = answer.header.as_ref().ok_or(Malformed("a transaction's answer without a header"))?;
    Ok(Revision(header.revision as u64))
}

/// The revision that wrote a key.
pub fn written_at(kv: &KeyValue) -> Revision {
    Revision(kv.mod_revision as u64)
}

/// The keys that the operation at `index` has read.
pub fn keys_at(responses: &[ResponseOp], index: usize) -> Result<&[KeyValue], Malformed> {
    match responses.get(index).and_then(|response| response.response.as_ref()) {
        Some(OpAnswer::Range(range)) => Ok(&range.kvs),
        _ => Err(Malformed("no range where the request has one")),
    }
}

/// The key that the operation at `index` has read, if it is there.
pub fn key_at(responses: &[ResponseOp], index: usize) -> Result<Option<&KeyValue>, Malformed> {
    keys_at(responses, index).map(<[KeyValue]>::first)
}

/// The value that the operation at `index` has read, if it is there.
pub fn value_at<T: Value>(responses: &[ResponseOp], index: usize) -> Result<Option<T>, Malformed> {
    key_at(responses, index)?.map(value_of).transpose()
}

/// A key's value.
pub fn value_of<T: Value>(kv: &KeyValue) -> Result<T, Malformed> {
    T::decode(&kv.value).ok_or(Malformed("a value that rota did not write"))
}

/// The nested transaction at `index`.
pub fn nested_at(responses: &[ResponseOp], index: usize) -> Result<&TxnResponse, Malformed> {
    match responses.get(index).and_then(|response| response.response.as_ref()) {
        Some(OpAnswer::Txn(txn)) => Ok(txn),
        _ => Err(Malformed("no transaction where the request has one")),
    }
}
