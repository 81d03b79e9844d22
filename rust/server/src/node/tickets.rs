//! Maps tickets to the destinations of their answers.

use std::rc::Rc;

use rota_core::{request::Ticket, response::Answer};

use crate::client::{Client, reply::Reply};

/// The unanswered tickets. A ticket is an index and a use count of the index, so a second answer finds nothing.
#[derive(Debug, Default)]
pub struct Tickets {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    used: u32,
    reply: Option<Reply>,
}

impl Tickets {
    /// Issues a ticket whose answer goes to `reply`.
    pub fn issue(&mut self, reply: Reply) -> Ticket {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { used: 0, reply: None });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        place.reply = Some(reply);
        Ticket(u64::from(place.used) << 32 | u64::from(index))
    }

    /// Writes the answer of `ticket`. Returns false if it was answered before (S18).
    pub fn answer(&mut self, ticket: Ticket, answer: &Answer<'_>) -> bool {
        let index = ticket.0 as u32;
        let Some(place) = self.places.get_mut(index as usize) else { return false };
        if u64::from(place.used) != ticket.0 >> 32 {
            return false;
        }
        let Some(reply) = place.reply.take() else { return false };
        place.used = place.used.wrapping_add(1);
        self.free.push(index);
        reply.write(answer);
        true
    }

    /// Returns the client whose request waits for the answer of `ticket`; `None`: no client does.
    pub fn client(&self, ticket: Ticket) -> Option<&Rc<Client>> {
        let place = self.places.get(ticket.0 as u32 as usize)?;
        place.reply.as_ref().filter(|_| u64::from(place.used) == ticket.0 >> 32)?.client()
    }

    /// Returns the number of waiting tickets.
    pub fn waiting(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use rota_core::error::ErrorCode;

    use super::*;

    #[test]
    fn a_ticket_is_answered_once() {
        let mut tickets = Tickets::default();
        let first = tickets.issue(Reply::Discard);
        let answer = Answer::Heartbeat(ErrorCode::None);
        assert!(tickets.answer(first, &answer));
        assert!(!tickets.answer(first, &answer));
        let second = tickets.issue(Reply::Discard);
        assert_ne!(first, second);
        assert!(!tickets.answer(first, &answer));
        assert_eq!(tickets.waiting(), 1);
        assert!(tickets.answer(second, &answer));
        assert_eq!(tickets.waiting(), 0);
    }
}
