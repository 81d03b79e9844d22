//! Requests and answers that own their lists, generated from the table in [`rota_core::messages`]: the decoded form of
//! a journal, and requests kept for later. Their strings and bytes are borrowed from a journal, or owned.

use std::{borrow::Cow, fmt, ops::Deref, sync::Arc};

use bumpalo::Bump;
use rota_core::{
    ErrorCode,
    records::serialized_bytes,
    request,
    response::{CommittedTopic, FetchedTopic, OffsetDeletedTopic},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A string that is borrowed or shared. Comparison ignores which.
#[derive(Clone)]
pub enum Text<'a> {
    /// Borrowed from a buffer.
    Borrowed(&'a str),
    /// Shared memory.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl std::hash::Hash for Text<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Text<'a> {
        Text::Borrowed(text)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text::Shared(text.into())
    }
}

impl From<Arc<str>> for Text<'_> {
    fn from(text: Arc<str>) -> Self {
        Text::Shared(text)
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<'a>, D::Error> {
        Deserialize::deserialize(deserializer).map(Text::Borrowed)
    }
}

/// Bytes that are borrowed or owned. Hexadecimal in human-readable formats.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bytes<'a>(pub Cow<'a, [u8]>);

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for Bytes<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes(Cow::Owned(bytes))
    }
}

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialized_bytes(&self.0, serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Bytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes<'a>, D::Error> {
        <&[u8]>::deserialize(deserializer).map(Bytes::from)
    }
}

/// The owned type of a field.
macro_rules! owned_type {
    ($a:lifetime $kind:tt or null) => { Option<owned_type!($a $kind)> };
    ($a:lifetime Text) => { Text<$a> };
    ($a:lifetime Bytes) => { Bytes<$a> };
    ($a:lifetime [i32]) => { Vec<i32> };
    ($a:lifetime Indexes) => { Cow<$a, [i32]> };
    ($a:lifetime [CommittedTopic]) => { Cow<$a, [CommittedTopic]> };
    ($a:lifetime [OffsetDeletedTopic]) => { Cow<$a, [OffsetDeletedTopic]> };
    ($a:lifetime [$element:ident]) => { Vec<$element<$a>> };
    ($a:lifetime $plain:ident) => { $plain };
}

/// Converts a reference to a field to the borrowed type. Lists are built in the arena.
macro_rules! lent {
    ($arena:ident $value:expr => $kind:tt or null) => { $value.as_ref().map(|value| lent!($arena value => $kind)) };
    ($arena:ident $value:expr => Text) => { &**$value };
    ($arena:ident $value:expr => Bytes) => { &**$value };
    ($arena:ident $value:expr => [i32]) => { &**$value };
    ($arena:ident $value:expr => Indexes) => { &**$value };
    ($arena:ident $value:expr => [Text]) => { &*$arena.alloc_slice_fill_iter($value.iter().map(|text| &**text)) };
    ($arena:ident $value:expr => [$element:ident]) => {
        &*$arena.alloc_slice_fill_iter($value.iter().map(|element| element.lend($arena)))
    };
    ($arena:ident $value:expr => $plain:ident) => { *$value };
}

/// Copies a field of the borrowed type.
macro_rules! copied {
    ($value:expr => $kind:tt or null) => { $value.map(|value| copied!(value => $kind)) };
    ($value:expr => Text) => { Text::Shared($value.into()) };
    ($value:expr => Bytes) => { Bytes::from($value.to_vec()) };
    ($value:expr => [i32]) => { $value.to_vec() };
    ($value:expr => Indexes) => { Cow::Owned($value.to_vec()) };
    ($value:expr => [Text]) => { $value.iter().map(|text| Text::Shared((*text).into())).collect() };
    ($value:expr => [$element:ident]) => { $value.iter().map(Into::into).collect() };
    ($value:expr => $plain:ident) => { $value };
}

/// One owned struct of the table; none for an answer that is a plain type.
macro_rules! owned_struct {
    ($(#[$doc:meta])* $plain:ident) => {};
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:tt $(or $null:ident)?,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        pub struct $name<'a> {
            $($(#[$field_doc])* pub $field: owned_type!('a $kind $(or $null)?),)+
        }
    };
}

/// The conversions between an owned struct and the borrowed one of its name.
macro_rules! owned_conversions {
    ($name:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:tt $(or $null:ident)?,)+
    }) => {
        impl $name<'_> {
            fn lend<'t>(&'t self, _arena: &'t Bump) -> request::$name<'t> {
                request::$name { $($field: lent!(_arena &self.$field => $kind $(or $null)?),)+ }
            }
        }

        impl From<&request::$name<'_>> for $name<'_> {
            fn from(borrowed: &request::$name<'_>) -> Self {
                $name { $($field: copied!(borrowed.$field => $kind $(or $null)?),)+ }
            }
        }
    };
}

macro_rules! owned_requests {
    (
        requests { $($(#[$doc:meta])* $api:ident $fields:tt)+ }
        elements { $($(#[$element_doc:meta])* $element:ident $element_fields:tt)+ }
    ) => {
        /// A request that owns its lists. See [`rota_core::Request`].
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        pub enum Request<'a> {
            $($(#[$doc])* $api($api<'a>),)+
        }

        impl Request<'_> {
            /// Returns the request's name, such as `JoinGroup`.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Request::$api(_) => stringify!($api),)+
                }
            }

            /// Borrows itself as the core's request.
            pub fn with<R>(&self, ask: impl FnOnce(rota_core::Request<'_>) -> R) -> R {
                let arena = Bump::new();
                ask(match self {
                    $(Request::$api(request) => rota_core::Request::$api(request.lend(&arena)),)+
                })
            }
        }

        impl From<&rota_core::Request<'_>> for Request<'_> {
            fn from(borrowed: &rota_core::Request<'_>) -> Self {
                match borrowed {
                    $(rota_core::Request::$api(request) => Request::$api(request.into()),)+
                }
            }
        }

        $(owned_struct! { $(#[$doc])* $api $fields })+
        $(owned_struct! { $(#[$element_doc])* $element $element_fields })+
        $(owned_conversions! { $api $fields })+
        $(owned_conversions! { $element $element_fields })+
    };
}
rota_core::requests!(owned_requests);

/// The answer type of a request: an [`ErrorCode`], or an owned struct.
macro_rules! answer_type {
    ($a:lifetime ErrorCode) => { ErrorCode };
    ($a:lifetime $answer:ident) => { $answer<$a> };
}

macro_rules! owned_answers {
    (
        answers { $($(#[$doc:meta])* $api:ident => $answer:ident $({ $($fields:tt)+ })?)+ }
        elements { $($(#[$element_doc:meta])* $element:ident $element_fields:tt)+ }
    ) => {
        /// An answer that owns its lists. See [`rota_core::Answer`].
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        pub enum Answer<'a> {
            $($(#[$doc])* $api(answer_type!('a $answer)),)+
        }

        impl Answer<'_> {
            /// Returns the name of the request, such as `JoinGroup`.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Answer::$api(_) => stringify!($api),)+
                }
            }
        }

        $(owned_struct! { $(#[$doc])* $answer $({ $($fields)+ })? })+
        $(owned_struct! { $(#[$element_doc])* $element $element_fields })+
    };
}
rota_core::answers!(owned_answers);
