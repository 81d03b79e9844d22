//! What clients saw, and whether one list for each partition explains it: appends of unique values, and reads of the whole
//! list. Because values are unique, the check needs no search.

use std::{collections::BTreeMap, time::Instant};

/// An append or a read. What was not answered may take effect at any later time, or never.
#[derive(Clone, Debug)]
pub struct Call {
    pub partition: i32,
    pub from: Instant,
    /// When the answer came.
    pub until: Option<Instant>,
    /// Of a read.
    pub values: Option<Vec<String>>,
}

/// Calls by value or by the read's number.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub appends: BTreeMap<String, Call>,
    pub reads: BTreeMap<String, Call>,
}

impl History {
    pub fn acknowledged(&self) -> usize {
        self.appends.values().filter(|append| append.until.is_some()).count()
    }

    /// The first contradiction of a partition's calls. Its longest read is the list.
    pub fn contradiction(&self, partition: i32) -> Option<String> {
        let reads = self.reads.iter().filter(|(_, read)| read.partition == partition);
        let mut reads: Vec<(&String, &Call, &Vec<String>)> =
            reads.filter_map(|(id, read)| Some((id, read, read.values.as_ref()?))).collect();
        reads.sort_by_key(|(_, read, _)| read.from);
        let list = reads.iter().map(|(.., values)| *values).max_by_key(|values| values.len())?;
        let places: BTreeMap<&String, usize> = list.iter().enumerate().map(|(place, value)| (value, place)).collect();
        if places.len() != list.len() {
            return Some("a value is in the list twice".to_owned());
        }
        if let Some(unknown) = list.iter().find(|value| !self.appends.contains_key(*value)) {
            return Some(format!("{unknown} was never appended"));
        }
        let ended: Vec<(&String, &Call)> =
            self.appends.iter().filter(|(_, append)| append.partition == partition && append.until.is_some()).collect();
        for (id, read, values) in &reads {
            if !list.starts_with(values) {
                return Some(format!("read {id} is no beginning of the list"));
            }
            let missing = ended.iter().find(|(value, append)| {
                append.until < Some(read.from) && places.get(value).is_none_or(|place| *place >= values.len())
            });
            if let Some((value, _)) = missing {
                return Some(format!("read {id} lacks {value}, which was acknowledged before"));
            }
            let early = values.last().filter(|value| Some(self.appends[*value].from) > read.until);
            if let Some(value) = early {
                return Some(format!("read {id} has {value} before it was appended"));
            }
        }
        let shrinks = reads.iter().find_map(|(id, read, values)| {
            let later =
                reads.iter().find(|(_, later, fewer)| read.until < Some(later.from) && fewer.len() < values.len());
            later.map(|(later, ..)| format!("read {later} has less than read {id} before it"))
        });
        shrinks.or_else(|| self.order(&ended, &places))
    }

    /// An append that ended before another one began comes before it.
    fn order(&self, ended: &[(&String, &Call)], places: &BTreeMap<&String, usize>) -> Option<String> {
        ended.iter().find_map(|(value, append)| {
            let place = places.get(value)?;
            let before =
                places.iter().find(|(other, at)| *at < place && Some(self.appends[**other].from) > append.until);
            before.map(|(other, _)| format!("{other} comes before {value}, which was acknowledged before it began"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Calls as `(value or values, begin, end)`, in milliseconds; appends have one value, reads have a list.
    fn of(appends: &[(&str, u64, Option<u64>)], reads: &[(&str, u64, u64)]) -> Option<String> {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut history = History::default();
        for (value, from, until) in appends {
            let call = Call { partition: 0, from: at(*from), until: until.map(at), values: None };
            history.appends.insert((*value).to_owned(), call);
        }
        for (number, (values, from, until)) in reads.iter().enumerate() {
            let values = values.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect();
            let call = Call { partition: 0, from: at(*from), until: Some(at(*until)), values: Some(values) };
            history.reads.insert(number.to_string(), call);
        }
        history.contradiction(0)
    }

    #[test]
    fn a_history_of_a_list_is_explained() {
        let appends = [("a", 0, Some(10)), ("b", 5, None), ("c", 11, Some(20)), ("d", 30, None)];
        assert_eq!(of(&appends, &[("", 0, 3), ("a", 6, 12), ("a,b,c", 21, 22), ("a,b,c", 40, 41)]), None);
    }

    #[test]
    fn contradictions_are_found() {
        let appends = [("a", 0, Some(10)), ("b", 20, Some(30)), ("c", 25, None)];
        for (reads, why) in [
            (&[("b", 40, 50)][..], "lacks a"),
            (&[("a", 40, 50), ("a,b", 60, 70)], "lacks b"),
            (&[("a,c", 40, 50), ("a,b,c", 60, 70)], "no beginning"),
            (&[("b,a", 40, 50)], "b comes before a"),
            (&[("a,b,b", 40, 50)], "twice"),
            (&[("a,x", 40, 50)], "never appended"),
            (&[("a,b", 12, 14), ("a,b", 40, 50)], "before it was appended"),
            (&[("a,b,c", 31, 35), ("a,b", 40, 50)], "has less than"),
        ] {
            let found = of(&appends, reads).expect(why);
            assert!(found.contains(why), "{found}: {why}");
        }
    }
}
