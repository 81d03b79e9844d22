//! The cast of a transcript: actors, the member ids they were given, and the generation they believe in.

use std::collections::BTreeMap;

pub const DEFAULT_SESSION_MS: i32 = 10_000;
pub const DEFAULT_REBALANCE_MS: i32 = 60_000;

/// A step that makes no sense, or that the subject cannot have taken.
pub type Success<T> = Result<T, String>;

const UNITS_MS: [(&str, i64); 3] = [("ms", 1), ("s", 1_000), ("m", 60_000)];

/// `10s`, `250ms`, `5m` in milliseconds.
pub fn duration_ms(text: &str) -> Success<i64> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = UNITS_MS.iter().find(|(unit, _)| *unit == &text[number.len()..]);
    let found = unit.and_then(|(_, unit_ms)| Some(number.parse::<i64>().ok()? * unit_ms));
    found.ok_or_else(|| format!("`{text}` is no duration (expected such as 10s, 250ms, 5m)"))
}

/// The shortest of `5m`, `10s`, `250ms` that is exact.
pub fn duration_text(ms: i64) -> String {
    if ms % 1_000 != 0 || ms == 0 {
        format!("{ms}ms")
    } else if ms % 60_000 != 0 || ms.abs() <= 60_000 {
        format!("{}s", ms / 1_000)
    } else {
        format!("{}m", ms / 60_000)
    }
}

/// What a minted id begins with, before `-` and the UUID.
pub fn stem(member_id: &str) -> Option<&str> {
    const UUID: &str = "-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    let (stem, minted) = member_id.split_at_checked(member_id.len().checked_sub(UUID.len())?)?;
    let fits = |(letter, place): (char, char)| match place {
        '-' => letter == '-',
        _ => matches!(letter, '0'..='9' | 'a'..='f'),
    };
    minted.chars().zip(UUID.chars()).all(fits).then_some(stem)
}

/// One client. Everything a request does not say is taken from here.
#[derive(Clone, Debug)]
pub struct Actor {
    pub name: String,
    pub protocols: Vec<(String, Vec<u8>)>,
    pub session_ms: i32,
    pub rebalance_ms: i32,
    pub protocol_type: String,
    pub version: i16,
    /// Newest last.
    pub ids: Vec<String>,
    pub generation: i32,
    /// The protocol type and name in its answer.
    pub told: (Option<String>, Option<String>),
}

impl Actor {
    fn new(name: &str) -> Actor {
        Actor {
            name: name.to_owned(),
            protocols: vec![("range".to_owned(), format!("S{name}").into_bytes())],
            session_ms: DEFAULT_SESSION_MS,
            rebalance_ms: DEFAULT_REBALANCE_MS,
            protocol_type: "consumer".to_owned(),
            version: 9,
            ids: Vec::new(),
            generation: -1,
            told: (None, None),
        }
    }

    /// The id it was given last.
    pub fn member_id(&self) -> Option<&str> {
        self.ids.last().map(String::as_str)
    }
}

/// All actors of one run, and the names under which member ids and generations are shown.
#[derive(Default)]
pub struct Cast {
    actors: BTreeMap<String, Actor>,
    /// (member id, its name), in the order of the answers.
    names: Vec<(String, String)>,
    base_generation: Option<i32>,
}

impl Cast {
    /// The actor behind a connection: `a'` is another connection of `a`.
    pub fn actor(&mut self, connection: &str) -> &mut Actor {
        let name = connection.trim_end_matches('\'');
        self.actors.entry(name.to_owned()).or_insert_with(|| Actor::new(name))
    }

    /// How many ids have names.
    pub fn known(&self) -> usize {
        self.names.len()
    }

    /// The actor behind `connection` got `member_id` as its own.
    pub fn bind(&mut self, connection: &str, member_id: &str) -> Success<()> {
        if self.names.iter().any(|(known, _)| known == member_id) {
            return Ok(());
        }
        let actor = self.actor(connection);
        if stem(member_id) != Some(&actor.name) {
            return Err(format!("`{member_id}` is no id for client `{}`", actor.name));
        }
        actor.ids.push(member_id.to_owned());
        let name = match actor.ids.len() {
            1 => format!("${}", actor.name),
            count => format!("${}{count}", actor.name),
        };
        self.names.push((member_id.to_owned(), name));
        Ok(())
    }

    /// The given part is over: its newest ids get the plain names, its newest generation is called G.
    pub fn rebase(&mut self) {
        for actor in self.actors.values_mut() {
            for (age, id) in actor.ids.iter().rev().enumerate() {
                let name = if age == 0 { format!("${}", actor.name) } else { format!("$old-{}{age}", actor.name) };
                self.names.iter_mut().filter(|(known, _)| known == id).for_each(|(_, old)| old.clone_from(&name));
            }
            actor.ids = actor.ids.split_off(actor.ids.len().saturating_sub(1));
        }
        let newest = self.actors.values().map(|actor| actor.generation).max();
        self.base_generation = newest.filter(|generation| *generation >= 0);
    }

    /// The name of a member id, `x-?` for one that x has not received, `""` for none.
    pub fn show_id(&self, member_id: Option<&str>) -> String {
        match member_id {
            None => "-".to_owned(),
            Some("") => "\"\"".to_owned(),
            Some(id) => match self.names.iter().find(|(known, _)| known == id) {
                Some((_, name)) => name.clone(),
                None => stem(id).map_or_else(|| id.to_owned(), |stem| format!("{stem}-?")),
            },
        }
    }

    /// `$a` or a bare actor name -> its id, `""` -> nothing, anything else unchanged.
    pub fn find_id(&self, text: &str) -> Success<String> {
        if text == "\"\"" {
            return Ok(String::new());
        }
        if let Some((member_id, _)) = self.names.iter().find(|(_, name)| name == text) {
            return Ok(member_id.clone());
        }
        if text.starts_with('$') {
            return Err(format!("no actor has the id `{text}`"));
        }
        Ok(self.actors.get(text).and_then(Actor::member_id).unwrap_or(text).to_owned())
    }

    /// Relative to G after a given part, else the number; 0 is always a new group's.
    pub fn show_generation(&self, generation: i32) -> String {
        match self.base_generation {
            Some(base) if generation == base => "G".to_owned(),
            Some(base) if generation > 0 => format!("G{:+}", generation - base),
            _ => generation.to_string(),
        }
    }

    /// The number behind `G`, `G+1`, `7`.
    pub fn find_generation(&self, text: &str) -> Success<i32> {
        let number = |text: &str| text.parse::<i32>().map_err(|_| format!("`{text}` is no generation"));
        match text.strip_prefix('G') {
            None => number(text),
            Some(distance) => {
                let base = self.base_generation.ok_or("there is no G without a given part")?;
                Ok(base + if distance.is_empty() { 0 } else { number(distance)? })
            }
        }
    }
}
