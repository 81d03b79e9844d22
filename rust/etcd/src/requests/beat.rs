//! `Beat`: a beat is written over none, over one of another process, or over an older one of its own. Beats of one
//! process are ordered as their values are, so "older" is a comparison of values; one of another process comes before all
//! of them or after all of them. A process that was shown a beat writes over that one or a later one only.

use rota_engine::{
    Beat, Part, PartitionId, Revision,
    requests::{Beaten, Content, PutBeat},
};

use super::Mapped;
use crate::{
    keys::Keys,
    proto::{KeyValue, TxnRequest, TxnResponse},
    txn::{self, Malformed, has_value, is_absent, is_greater, is_less, nested, put, range, when},
    values::{self, Value},
};

impl Mapped for PutBeat {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let (beat, value) = (keys.beat(self.node), self.beat.encode());
        let write = || vec![put(beat.clone(), value.clone()), range(keys.parts(), 0)];
        let (is_older, after_all) =
            (is_less(beat.clone(), value.clone()), values::after_beats_of(self.beat.incarnation));
        let beats = if let Some(before) = self.shown.checked_sub(1) {
            let before = Beat { counter: before, ..self.beat }.encode();
            let has_shown = vec![is_greater(beat.clone(), before), is_less(beat.clone(), after_all)];
            when(has_shown, vec![nested(when(vec![is_older], write(), vec![]))], vec![])
        } else {
            let of_a_higher_process = is_greater(beat.clone(), after_all);
            let replaces = when(vec![of_a_higher_process], write(), vec![]);
            let follows = when(vec![is_older], write(), vec![nested(replaces)]);
            when(vec![is_absent(beat.clone())], write(), vec![nested(follows)])
        };
        let registered = has_value(keys.incarnation(self.node), self.beat.incarnation.encode());
        when(vec![registered], vec![nested(beats)], vec![])
    }

    fn answer(&self, _: &Keys, answer: &TxnResponse, _: Revision) -> Result<Content, Malformed> {
        if !answer.succeeded {
            return Ok(Content::Beaten(Beaten::Replaced));
        }
        let mut attempt = txn::nested_at(&answer.responses, 0)?;
        if self.shown > 0 {
            if !attempt.succeeded {
                return Ok(Content::Beaten(Beaten::Lost));
            }
            attempt = txn::nested_at(&attempt.responses, 0)?;
        }
        while !attempt.succeeded {
            if attempt.responses.is_empty() {
                return Ok(Content::Beaten(Beaten::Late));
            }
            attempt = txn::nested_at(&attempt.responses, 0)?;
        }
        let parts = txn::keys_at(&attempt.responses, 1)?.iter().map(part);
        Ok(Content::Beaten(Beaten::Alive(parts.collect::<Result<_, _>>()?)))
    }
}

fn part(kv: &KeyValue) -> Result<(PartitionId, Part), Malformed> {
    let partition = Keys::last_id(&kv.key).ok_or(Malformed("a partition without a number"))?;
    Ok((PartitionId(partition), txn::value_of(kv)?))
}
