//! Why cells of state x event x sender cannot come up, as people wrote it down.

/// Returns the reason of the first line of a list that fits a cell. Lines have the form `STATE EVENT SENDER: reason`,
/// with `between` between the names. Each name may be `*` for any, or several with `|`. Empty lines and those with `#` are
/// left out.
pub fn reason_in(list: &'static str, between: &str, cell: [&str; 3]) -> Option<&'static str> {
    let told = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut lines = told.map(|line| {
        let (names, reason) = line.split_once(": ").expect("a line has a reason");
        let names: Vec<&str> = names.split(between).collect();
        let names: [&str; 3] = names.try_into().expect("a line has three names");
        (names, reason)
    });
    let is_it = |told: &str, name: &str| told == "*" || told.split('|').any(|one| one == name);
    let found = lines.find(|(names, _)| names.iter().zip(cell).all(|(told, name)| is_it(told, name)));
    found.map(|(_, reason)| reason)
}
