//! How a field of `rota_core::messages` looks in Python, and how it gets there and back.

/// The Python type of a field. Elements of a request are tuples; those of an answer are classes.
macro_rules! python_type {
    ($kind:tt or null) => { Option<$crate::messages::python_type!($kind)> };
    (Text) => { String };
    (Bytes) => { $crate::values::Octets };
    (ErrorCode) => { $crate::errors::Code };
    ([Text]) => { $crate::values::Tuple<String> };
    // (name, metadata)
    ([Protocol]) => { $crate::values::Tuple<(String, $crate::values::Octets)> };
    // (member id, assignment)
    ([Assignment]) => { $crate::values::Tuple<(String, $crate::values::Octets)> };
    // (member id, instance id, reason)
    ([LeaveIdentity]) => { $crate::values::Tuple<(String, Option<String>, Option<String>)> };
    (Indexes) => { $crate::values::Tuple<i32> };
    // (topic id, partitions)
    ([TopicPartitions]) => { $crate::values::Tuple<(u128, $crate::values::Tuple<i32>)> };
    ([$element:ident]) => { $crate::values::Tuple<$element> };
    ($plain:ident) => { $plain };
}
pub(crate) use python_type;

/// A field of a borrowed answer, as Python has it.
macro_rules! to_python {
    ($value:expr => $kind:tt or null) => { $value.map(|value| $crate::messages::to_python!(value => $kind)) };
    ($value:expr => Text) => { $value.to_owned() };
    ($value:expr => Bytes) => { $value.into() };
    ($value:expr => ErrorCode) => { $crate::errors::Code($value) };
    ($value:expr => Indexes) => { $value.iter().copied().collect() };
    ($value:expr => [Text]) => { $value.iter().map(ToString::to_string).collect() };
    ($value:expr => [$element:ident]) => { $value.iter().map($element::from).collect() };
    ($value:expr => $plain:ident) => { $value };
}
pub(crate) use to_python;

/// A field of a Python request, given by reference, as `rota_journal::owned` has it.
macro_rules! from_python {
    ($value:expr => $kind:tt or null) => {
        $value.as_ref().map(|value| $crate::messages::from_python!(value => $kind))
    };
    ($value:expr => Text) => { $value.as_str().into() };
    ($value:expr => [Text]) => { $value.0.iter().map(|text| text.as_str().into()).collect() };
    ($value:expr => [Protocol]) => {
        $value.0.iter().map(|(name, metadata)| owned::Protocol { name: text(name), metadata: bytes(metadata) }).collect()
    };
    ($value:expr => [Assignment]) => {
        $value.0.iter().map(|(id, part)| owned::Assignment { member_id: text(id), assignment: bytes(part) }).collect()
    };
    ($value:expr => [LeaveIdentity]) => {
        $value
            .0
            .iter()
            .map(|(member_id, instance_id, reason)| owned::LeaveIdentity {
                member_id: text(member_id),
                instance_id: instance_id.as_deref().map(text),
                reason: reason.as_deref().map(text),
            })
            .collect()
    };
    ($value:expr => [TopicPartitions]) => {
        $value
            .0
            .iter()
            .map(|(topic_id, partitions)| owned::TopicPartitions {
                topic_id: *topic_id,
                partitions: partitions.0.to_vec().into(),
            })
            .collect()
    };
    ($value:expr => $plain:ident) => { *$value };
}
pub(crate) use from_python;
