//! A list that grows by pages. Full pages never move, so growth has no pause that depends on the length, and at most
//! one page of memory is unused.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bits of an index that select a position within its page.
const PAGE_BITS: u32 = 12;
/// Positions per page.
const PAGE: usize = 1 << PAGE_BITS;

/// A list in pages.
#[derive(Clone, Debug)]
pub(crate) struct Pages<T> {
    /// Pages; all but the last are full.
    pages: Vec<Vec<T>>,
}

impl<T> Default for Pages<T> {
    fn default() -> Pages<T> {
        Pages { pages: Vec::new() }
    }
}

impl<T> Pages<T> {
    /// Counts the elements.
    pub fn len(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE + last.len())
    }

    /// Appends an element.
    pub fn push(&mut self, value: T) {
        match self.pages.last_mut() {
            Some(last) if last.len() < PAGE => last.push(value),
            _ => self.pages.push(vec![value]),
        }
    }

    /// Returns the element at this index.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.pages.get(index >> PAGE_BITS)?.get(index % PAGE)
    }

    /// Returns the element at this index, mutably.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.pages.get_mut(index >> PAGE_BITS)?.get_mut(index % PAGE)
    }

    /// Iterates in index order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten()
    }
}

impl<T> std::ops::Index<usize> for Pages<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.pages[index >> PAGE_BITS][index % PAGE]
    }
}

impl<T> std::ops::IndexMut<usize> for Pages<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.pages[index >> PAGE_BITS][index % PAGE]
    }
}

impl<T> FromIterator<T> for Pages<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Pages<T> {
        let mut pages = Pages::default();
        values.into_iter().for_each(|value| pages.push(value));
        pages
    }
}

/// Serializes as a plain list.
impl<T: Serialize> Serialize for Pages<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq as _;
        let mut sequence = serializer.serialize_seq(Some(self.len()))?;
        self.iter().try_for_each(|value| sequence.serialize_element(value))?;
        sequence.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pages<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pages<T>, D::Error> {
        Vec::deserialize(deserializer).map(Pages::from_iter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_found_by_its_index_and_a_full_page_stays_where_it_is() {
        let mut pages = Pages::default();
        let count = 2 * PAGE + 3;
        (0..PAGE).for_each(|value| pages.push(value));
        let place = std::ptr::from_ref(&pages[1]);
        (PAGE..count).for_each(|value| pages.push(value));
        assert_eq!((pages.len(), pages.get(count), pages.get(usize::MAX)), (count, None, None));
        assert!((0..count).all(|at| pages[at] == at && pages.get(at) == Some(&at)));
        assert!(pages.iter().copied().eq(0..count));
        assert_eq!(std::ptr::from_ref(&pages[1]), place);
        *pages.get_mut(PAGE).unwrap() = 7;
        pages[PAGE + 1] = 8;
        assert_eq!((pages[PAGE], pages[PAGE + 1]), (7, 8));
    }

    #[test]
    fn it_is_stored_as_any_other_list() {
        let values: Vec<u32> = (0..PAGE as u32 + 2).collect();
        let pages: Pages<u32> = values.iter().copied().collect();
        let bytes = postcard::to_allocvec(&pages).unwrap();
        assert_eq!(bytes, postcard::to_allocvec(&values).unwrap());
        assert!(postcard::from_bytes::<Pages<u32>>(&bytes).unwrap().iter().eq(&values));
    }
}
