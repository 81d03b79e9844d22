//! Patterns in the syntax of RE2/J 1.8, the library that Kafka 4.4 uses (docs/consumer-protocol.md §15.1).
//!
//! Topic names are ASCII, so every class of characters is a set of 128 bits. [`translate`] reads a pattern as RE2/J does,
//! with its errors, and writes it with sets, groups, repetitions and anchors only, which every regex library reads alike.

use std::{collections::BTreeSet, fmt::Write as _};

use super::re2_classes::{POSIX, Set, UNICODE, UNICODE_EMPTY, perl};

/// The largest count of a repetition.
const REPEAT_MAX: u32 = 1_000;
const LAST_CODE_POINT: u32 = 0x10_FFFF;
/// U+017F and U+212A fold to `s` and `k`.
const LONG_S: u32 = 0x17F;
const KELVIN: u32 = 0x212A;

const CHAR_RANGE: &str = "invalid character class range";
const ESCAPE: &str = "invalid escape sequence";
const INTERNAL: &str = "regexp/syntax: internal error";
const MISSING_ARGUMENT: &str = "missing argument to repetition operator";
const MISSING_BRACKET: &str = "missing closing ]";
const MISSING_PAREN: &str = "missing closing )";
const NAMED_CAPTURE: &str = "invalid named capture";
const DUPLICATE_NAME: &str = "duplicate capture group name";
const NESTED_REPEAT: &str = "invalid nested repetition operator";
const PERL_SYNTAX: &str = "invalid or unsupported Perl syntax";
const REPEAT_COUNT: &str = "invalid repeat count";
const TRAILING_BACKSLASH: &str = "trailing backslash at end of expression";

/// Why RE2/J refuses a pattern, in its words.
type Refused = &'static str;

/// The flags that change what a whole match accepts. `m` and `U` do not: names have no newline, and are matched whole.
#[derive(Clone, Copy, Default)]
struct Flags {
    fold_case: bool,
    dot_matches_newline: bool,
}

/// An open group.
struct Frame {
    /// Where the group begins in the output.
    start: usize,
    /// The flags outside.
    flags: Flags,
}

struct Translation<'p> {
    rest: &'p str,
    flags: Flags,
    frames: Vec<Frame>,
    names: BTreeSet<&'p str>,
    out: String,
    /// Where the atom that a repetition applies to begins in the output.
    atom: Option<usize>,
    /// Whether a repetition has just been read.
    repeated: bool,
}

/// Returns the pattern for a whole match, in the syntax of Rust's regex libraries.
///
/// # Errors
/// RE2/J refuses the pattern, in its words.
pub fn translate(pattern: &str) -> Result<String, Refused> {
    let mut translation = Translation {
        rest: pattern,
        flags: Flags::default(),
        frames: Vec::new(),
        names: BTreeSet::new(),
        out: r"\A(?:".to_owned(),
        atom: None,
        repeated: false,
    };
    while let Some(first) = translation.rest.chars().next() {
        let was_repeated = std::mem::take(&mut translation.repeated);
        translation.token(first, was_repeated)?;
    }
    if !translation.frames.is_empty() {
        return Err(MISSING_PAREN);
    }
    Ok(translation.out + r")\z")
}

impl<'p> Translation<'p> {
    fn token(&mut self, first: char, was_repeated: bool) -> Result<(), Refused> {
        match first {
            '(' if self.rest.starts_with("(?") => return self.perl_group(),
            '[' => {
                let set = self.class()?;
                self.put_set(set);
                return Ok(());
            }
            '\\' => return self.escape(),
            '{' => return self.counted(was_repeated),
            _ => {}
        }
        self.pop();
        match first {
            '(' => self.open(self.flags),
            ')' => {
                let frame = self.frames.pop().ok_or(INTERNAL)?;
                self.out.push(')');
                self.flags = frame.flags;
                self.atom = Some(frame.start);
            }
            '|' => {
                self.out.push('|');
                self.atom = None;
            }
            '^' => self.put(r"\A"),
            '$' => self.put(r"\z"),
            '.' if self.flags.dot_matches_newline => self.put_set(Set::MAX),
            '.' => self.put_set(!bit('\n')),
            '*' | '+' | '?' => return self.repeat(&first.to_string(), was_repeated),
            literal => self.put_literal(literal),
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<char> {
        let first = self.rest.chars().next()?;
        self.rest = &self.rest[first.len_utf8()..];
        Some(first)
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The text before `end`, which is skipped, too.
    fn until(&mut self, end: &str) -> Option<&'p str> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text)
    }

    fn put(&mut self, text: &str) {
        self.atom = Some(self.out.len());
        self.out.push_str(text);
    }

    fn put_set(&mut self, set: Set) {
        self.atom = Some(self.out.len());
        write_set(&mut self.out, set);
    }

    fn put_literal(&mut self, literal: char) {
        self.put_set(range(literal as u32, literal as u32, self.flags));
    }

    /// Begins a group whose content has these flags.
    fn open(&mut self, flags: Flags) {
        self.frames.push(Frame { start: self.out.len(), flags: self.flags });
        self.flags = flags;
        self.out.push_str("(?:");
        self.atom = None;
    }

    fn repeat(&mut self, operator: &str, was_repeated: bool) -> Result<(), Refused> {
        // Lazy or not, a whole match accepts the same names.
        self.skip("?");
        if was_repeated {
            return Err(NESTED_REPEAT);
        }
        let start = self.atom.ok_or(MISSING_ARGUMENT)?;
        self.out.insert_str(start, "(?:");
        self.out.push(')');
        self.out.push_str(operator);
        self.repeated = true;
        Ok(())
    }

    /// `{2}`, `{2,}` or `{2,3}`; anything else is a literal brace.
    fn counted(&mut self, was_repeated: bool) -> Result<(), Refused> {
        self.pop();
        let before = self.rest;
        let Some(counts) = self.counts() else {
            self.rest = before;
            self.put_literal('{');
            return Ok(());
        };
        let (least, most) = counts;
        if least > REPEAT_MAX || most.is_some_and(|most| most > REPEAT_MAX || most < least) {
            return Err(REPEAT_COUNT);
        }
        let most = most.map_or(String::new(), |most| most.to_string());
        self.repeat(&format!("{{{least},{most}}}"), was_repeated)
    }

    /// The least and the most count; no most: any number.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        let least = self.count()?;
        if !self.skip(",") {
            return self.skip("}").then_some((least, Some(least)));
        }
        if self.skip("}") {
            return Some((least, None));
        }
        let most = self.count()?;
        self.skip("}").then_some((least, Some(most)))
    }

    /// Digits without a leading zero. A number that is too large is `u32::MAX`.
    fn count(&mut self) -> Option<u32> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        self.rest = rest;
        Some(digits.parse().unwrap_or(u32::MAX))
    }

    /// `(?:`, `(?flags)`, `(?flags:` or a named group.
    fn perl_group(&mut self) -> Result<(), Refused> {
        if self.skip("(?P<") || self.skip("(?<") {
            let name = self.until(">").ok_or(NAMED_CAPTURE)?;
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return Err(NAMED_CAPTURE);
            }
            if !self.names.insert(name) {
                return Err(DUPLICATE_NAME);
            }
            self.open(self.flags);
            return Ok(());
        }
        self.skip("(?");
        let (mut flags, mut on, mut named) = (self.flags, true, false);
        while let Some(letter) = self.pop() {
            match letter {
                'i' => flags.fold_case = on,
                's' => flags.dot_matches_newline = on,
                'm' | 'U' => {}
                '-' if on => {
                    (on, named) = (false, false);
                    continue;
                }
                ':' if on || named => {
                    self.open(flags);
                    return Ok(());
                }
                ')' if on || named => {
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            named = true;
        }
        Err(PERL_SYNTAX)
    }

    /// A backslash outside a class.
    fn escape(&mut self) -> Result<(), Refused> {
        for (escape, anchor) in [(r"\A", r"\A"), (r"\b", r"\b"), (r"\B", r"\B"), (r"\z", r"\z")] {
            if self.skip(escape) {
                self.put(anchor);
                return Ok(());
            }
        }
        if self.skip(r"\Q") {
            let quoted = self.until(r"\E").unwrap_or_else(|| std::mem::take(&mut self.rest));
            quoted.chars().for_each(|literal| self.put_literal(literal));
            return Ok(());
        }
        let set = if let Some(set) = self.named_class()? {
            set
        } else {
            let code_point = self.escaped()?;
            range(code_point, code_point, self.flags)
        };
        self.put_set(set);
        Ok(())
    }

    /// `\p{Lu}`, `\PL` or `\d`, outside or inside a class.
    fn named_class(&mut self) -> Result<Option<Set>, Refused> {
        let Some(letters) = self.rest.strip_prefix('\\') else { return Ok(None) };
        let mut letters = letters.chars();
        let Some(letter) = letters.next() else { return Ok(None) };
        if let Some(set) = perl(letter) {
            self.rest = letters.as_str();
            return Ok(Some(signed(letter.is_ascii_uppercase(), fold(set, self.flags))));
        }
        if !matches!(letter, 'p' | 'P') {
            return Ok(None);
        }
        self.rest = letters.as_str();
        let name = if self.skip("{") {
            self.until("}").ok_or(CHAR_RANGE)?
        } else {
            let before = self.rest;
            let length = self.pop().ok_or(CHAR_RANGE)?.len_utf8();
            &before[..length]
        };
        let (is_inverted, name) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
        let set = unicode(name, self.flags).ok_or(CHAR_RANGE)?;
        Ok(Some(signed((letter == 'P') != is_inverted, set)))
    }

    /// The code point behind a backslash.
    fn escaped(&mut self) -> Result<u32, Refused> {
        self.pop();
        let letter = self.pop().ok_or(TRAILING_BACKSLASH)?;
        match letter {
            // A single digit would be a back-reference.
            '1'..='7' if !self.rest.starts_with(|c| matches!(c, '0'..='7')) => Err(ESCAPE),
            '0'..='7' => {
                let end = self.rest.bytes().take(2).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                let (digits, rest) = self.rest.split_at(end);
                self.rest = rest;
                Ok(digits.bytes().fold(letter as u32 - '0' as u32, |value, digit| value * 8 + u32::from(digit - b'0')))
            }
            'x' => self.hexadecimal().ok_or(ESCAPE),
            'a' => Ok(7),
            'f' => Ok(12),
            'n' => Ok(10),
            'r' => Ok(13),
            't' => Ok(9),
            'v' => Ok(11),
            letter if letter.is_ascii_alphanumeric() => Err(ESCAPE),
            punctuation => Ok(punctuation as u32),
        }
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        let digits = if self.skip("{") {
            self.until("}")?
        } else {
            let (digits, rest) = self.rest.split_at_checked(2)?;
            self.rest = rest;
            digits
        };
        let is_hexadecimal = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let significant = digits.trim_start_matches('0');
        let value = match significant {
            "" => Some(0),
            significant => u32::from_str_radix(significant, 16).ok(),
        };
        value.filter(|value| is_hexadecimal && *value <= LAST_CODE_POINT)
    }

    fn class(&mut self) -> Result<Set, Refused> {
        self.pop();
        let is_negated = self.skip("^");
        let (mut set, mut is_first) = (0, true);
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            if let Some(named) = self.posix()? {
                set |= named;
            } else if let Some(named) = self.named_class()? {
                set |= named;
            } else {
                let low = self.class_char()?;
                let high = if self.rest.starts_with("-]") || !self.skip("-") { low } else { self.class_char()? };
                if high < low {
                    return Err(CHAR_RANGE);
                }
                set |= range(low, high, self.flags);
            }
        }
        self.pop();
        Ok(signed(is_negated, set))
    }

    /// `[:alpha:]` or `[:^alpha:]` inside a class.
    fn posix(&mut self) -> Result<Option<Set>, Refused> {
        let Some((name, rest)) = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) else {
            return Ok(None);
        };
        let (is_negated, name) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
        let (_, set) = POSIX.iter().find(|(known, _)| *known == name).ok_or(CHAR_RANGE)?;
        self.rest = rest;
        Ok(Some(signed(is_negated, fold(*set, self.flags))))
    }

    fn class_char(&mut self) -> Result<u32, Refused> {
        if self.rest.starts_with('\\') {
            return self.escaped();
        }
        self.pop().map(|literal| literal as u32).ok_or(MISSING_BRACKET)
    }
}

fn bit(character: char) -> Set {
    1 << character as u32
}

fn signed(is_negated: bool, set: Set) -> Set {
    if is_negated { !set } else { set }
}

/// The ASCII part of a Unicode class; `None`: there is no such class.
fn unicode(name: &str, flags: Flags) -> Option<Set> {
    if let Some((_, plain, folded)) = UNICODE.iter().find(|(known, ..)| *known == name) {
        return Some(if flags.fold_case { *folded } else { *plain });
    }
    UNICODE_EMPTY.contains(&name).then_some(0)
}

/// The ASCII part of a range of code points; with `i`, of all that differ from it by case only.
fn range(low: u32, high: u32, flags: Flags) -> Set {
    let ascii = (low..=high.min(127)).map(|code_point| 1 << code_point).sum();
    let folds_to = |code_point: u32, letters: &str| -> Set {
        let is_there = flags.fold_case && (low..=high).contains(&code_point);
        letters.chars().filter(|_| is_there).map(bit).sum()
    };
    fold(ascii, flags) | folds_to(LONG_S, "sS") | folds_to(KELVIN, "kK")
}

/// The set and, with `i`, the letters of the other case.
fn fold(set: Set, flags: Flags) -> Set {
    const UPPER: Set = ((1 << 26) - 1) << 'A' as u32;
    const LOWER: Set = UPPER << 32;
    if flags.fold_case { set | (set & UPPER) << 32 | (set & LOWER) >> 32 } else { set }
}

/// Writes a class of Rust's syntax.
fn write_set(out: &mut String, set: Set) {
    if set == 0 {
        // No character.
        return out.push_str(r"[^\x00-\x{10FFFF}]");
    }
    out.push('[');
    let mut code_point = 0;
    while code_point < 128 {
        let run = (!(set >> code_point)).trailing_zeros();
        if run > 0 {
            let _infallible = write!(out, r"\x{code_point:02X}-\x{:02X}", code_point + run - 1);
        }
        code_point += run.max(1);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What two patterns accept is the same.
    fn assert_same(one: &str, other: &str) {
        assert_eq!(translate(one), translate(other), "{one} and {other}");
    }

    #[test]
    fn a_dot_is_no_newline_without_the_flag() {
        assert_same(".", r"[^\n]");
        assert_same("(?s).", r"[\x00-\x7F]");
        assert_same("(?s:.).", r"(?:[\x00-\x7F])[^\n]");
    }

    #[test]
    fn a_count_may_be_zero_and_begins_with_no_other_zero() {
        assert_eq!(translate("a{0}"), Ok(r"\A(?:(?:[\x61-\x61]){0,0})\z".to_owned()));
        assert_same("a{00}", r"a\{00\}");
    }

    #[test]
    fn flags_are_switched_off_once_and_not_without_a_letter() {
        for refused in ["(?i--s:a)", "(?-:a)", "(?-)a", "(?i-)a"] {
            assert_eq!(translate(refused), Err(PERL_SYNTAX), "{refused}");
        }
        assert_same("(?i-s:a)", "(?:[aA])");
    }

    #[test]
    fn an_octal_escape_is_the_character_with_that_number() {
        for (escaped, literal) in [(r"\060", "0"), (r"\101", "A"), (r"\12", r"\n"), (r"\0", r"\x00")] {
            assert_same(escaped, literal);
        }
    }

    #[test]
    fn without_case_a_class_has_each_letter_once() {
        assert_same("(?i)[aA]", "[aA]");
        assert_same("(?i)[A]", "[aA]");
        assert_same("(?i)[a]", "[aA]");
        assert_same("(?i)[A-z]", "[A-z]");
        // U+017F and U+212A have the case of `s` and `k`.
        assert_same(r"(?i)[a-\x{212A}]", r"[A-Za-\x7F]");
        assert_same(r"(?i)[\x{17F}]", "[sS]");
        assert_same(r"(?i)[\x{212A}]", "[kK]");
        assert_same(r"[\x{17F}\x{212A}]", r"[^\x00-\x7F]");
    }

    #[test]
    fn a_class_is_written_in_runs() {
        assert_eq!(translate("[ac-e]"), Ok(r"\A(?:[\x61-\x61\x63-\x65])\z".to_owned()));
        assert_eq!(translate(r"[\x00-\x7F]"), Ok(r"\A(?:[\x00-\x7F])\z".to_owned()));
        assert_eq!(translate(r"[\x01\x7F]"), Ok(r"\A(?:[\x01-\x01\x7F-\x7F])\z".to_owned()));
    }
}
