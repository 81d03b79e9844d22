//! Stamps of groups: a group that has the same stamp as before has not changed.

/// The place of a group's stamp, and the stamp. No stamp is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub(super) place: u32,
    value: u64,
}

/// The stamp of each place.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps {
    of_places: Vec<u64>,
    free: Vec<u32>,
    last: u64,
}

impl Stamps {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Gives the group at `place` a new stamp, and a place if it has none.
    pub fn renew(&mut self, place: &mut Option<u32>) {
        let value = self.next();
        let place = *place.get_or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.of_places.push(value);
                (self.of_places.len() - 1) as u32
            })
        });
        self.of_places[place as usize] = value;
    }

    /// Frees a place, and ends the stamp there.
    pub fn release(&mut self, place: &mut Option<u32>) {
        if let Some(place) = place.take() {
            self.of_places[place as usize] = self.next();
            self.free.push(place);
        }
    }

    /// The stamp at a place; `None`: there is no such place.
    #[inline]
    pub fn at(&self, place: u32) -> Option<Stamp> {
        Some(Stamp { place, value: *self.of_places.get(place as usize)? })
    }

    /// How many places there are.
    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.of_places.len()
    }
}
