//! Errors of the coordinator, and their codes on the wire (§4).

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// The level does not have the second protocol.
    UnsupportedVersion,
    /// The request contradicts itself.
    InvalidRequest,
    /// The transaction's timeout is out of range.
    InvalidTimeout,
    /// Another node coordinates the id.
    NotCoordinator,
    /// The coordinator is reading its log.
    Loading,
    /// The log did not take the record, or there are too many ids.
    NotAvailable,
    /// The id is unknown, or has another producer id.
    UnknownMapping,
    /// The producer has another epoch than the id.
    Fenced,
    /// Another request about the id is not finished yet.
    Concurrent,
    /// The request does not fit the state.
    InvalidState,
    /// `DescribeTransactions` of an unknown id.
    NotFound,
}

/// The requests whose errors depend on their version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// `InitProducerId`.
    InitProducerId,
    /// `AddPartitionsToTxn`.
    AddPartitionsToTxn,
    /// `AddOffsetsToTxn`.
    AddOffsetsToTxn,
    /// `EndTxn`.
    EndTxn,
    /// `DescribeTransactions`.
    DescribeTransactions,
}

const INVALID_PRODUCER_EPOCH: i16 = 47;
const PRODUCER_FENCED: i16 = 90;

impl Api {
    /// Returns the first version whose clients know `PRODUCER_FENCED`.
    const fn fenced_since(self) -> i16 {
        match self {
            Api::InitProducerId => 4,
            Api::AddPartitionsToTxn | Api::AddOffsetsToTxn | Api::EndTxn => 2,
            Api::DescribeTransactions => 0,
        }
    }
}

impl Error {
    /// Returns the code on the wire in an answer of this API and version.
    pub const fn code(self, api: Api, version: i16) -> i16 {
        match self {
            Error::Loading => 14,
            Error::NotAvailable => 15,
            Error::NotCoordinator => 16,
            Error::UnsupportedVersion => 35,
            Error::InvalidRequest => 42,
            Error::InvalidState => 48,
            Error::UnknownMapping => 49,
            Error::InvalidTimeout => 50,
            Error::Concurrent => 51,
            Error::NotFound => 105,
            Error::Fenced if version < api.fenced_since() => INVALID_PRODUCER_EPOCH,
            Error::Fenced => PRODUCER_FENCED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Api, Error};

    #[test]
    fn a_fenced_producer_gets_the_error_that_its_version_knows() {
        for (api, version, code) in [
            (Api::InitProducerId, 3, 47),
            (Api::InitProducerId, 4, 90),
            (Api::AddPartitionsToTxn, 0, 47),
            (Api::AddPartitionsToTxn, 3, 90),
            (Api::AddOffsetsToTxn, 0, 47),
            (Api::AddOffsetsToTxn, 3, 90),
            (Api::EndTxn, 1, 47),
            (Api::EndTxn, 3, 90),
        ] {
            assert_eq!(Error::Fenced.code(api, version), code, "{api:?} v{version}");
        }
    }
}
