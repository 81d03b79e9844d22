//! One line about a message: names and values, as text or as JSON, of bounded length.
//!
//! Strings of clients are escaped. A line has no control characters, so it is one line and harmless in a terminal. A
//! long line leaves out the rest, marks this, and closes every open structure. A name or element whose value could not be
//! read is left out.

use std::fmt::Write;

/// Length in bytes after which no further name or element begins.
pub const LINE_BYTES_MAX: usize = 4_096;

/// Maximum shown characters of a string.
pub const STRING_CHARS_MAX: usize = 200;

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `name=value name={name=value} name=[value, value]`
    Text,
    /// One JSON object.
    Json,
}

/// A line under construction.
#[derive(Debug)]
pub struct Line {
    out: String,
    layout: Layout,
    /// Whether the innermost structure is empty so far.
    fresh: bool,
    /// Whether the rest is left out.
    cut: bool,
    /// Number of open structures that are left out.
    skipped: u32,
    /// A name or element that has no value yet: the length before it, and whether its structure was empty.
    begun: Option<(usize, bool)>,
}

impl Line {
    /// Creates an empty line. In JSON its object is open.
    pub fn new(layout: Layout) -> Line {
        let out = if layout == Layout::Json { "{".to_owned() } else { String::new() };
        Line { out, layout, fresh: true, cut: false, skipped: 0, begun: None }
    }

    /// Returns the format of the line.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the whole line, without a line break.
    pub fn finish(mut self) -> String {
        self.drop_begun();
        match (self.layout, self.cut) {
            (Layout::Text, true) => self.out.push_str(" (cut)"),
            (Layout::Text, false) => {}
            (Layout::Json, true) => self.out.push_str(",\"cut\":true}"),
            (Layout::Json, false) => self.out.push('}'),
        }
        self.out
    }

    /// Adds text without escaping; the caller makes sure that it is harmless.
    pub fn literal(&mut self, text: &str) {
        self.begun = None;
        self.out.push_str(text);
        self.fresh = text.is_empty();
    }

    /// Drops a name or element without a value, which could not be read.
    fn drop_begun(&mut self) {
        if let Some((length, fresh)) = self.begun.take() {
            self.out.truncate(length);
            self.fresh = fresh;
        }
    }

    fn begin(&mut self, separator: &str) -> bool {
        self.drop_begun();
        self.cut |= self.out.len() >= LINE_BYTES_MAX;
        if self.cut {
            return false;
        }
        self.begun = Some((self.out.len(), self.fresh));
        if !self.fresh {
            self.out.push_str(separator);
        }
        self.fresh = false;
        true
    }

    /// Begins a value with a name.
    pub fn name(&mut self, name: &str) {
        let (separator, then) = if self.layout == Layout::Json { (",", ':') } else { (" ", '=') };
        if self.begin(separator) {
            self.escaped(name);
            self.out.push(then);
        }
    }

    /// Begins an element of a list.
    pub fn element(&mut self) {
        let separator = if self.layout == Layout::Json { "," } else { ", " };
        self.begin(separator);
    }

    /// Opens a structure, `{` or `[`.
    pub fn open(&mut self, bracket: char) {
        if self.cut {
            self.skipped += 1;
        } else {
            self.begun = None;
            self.out.push(bracket);
            self.fresh = true;
        }
    }

    /// Closes a structure, `}` or `]`.
    pub fn close(&mut self, bracket: char) {
        self.drop_begun();
        if self.skipped > 0 {
            self.skipped -= 1;
        } else {
            self.out.push(bracket);
            self.fresh = false;
        }
    }

    /// Adds a number, `true` or `false`.
    pub fn plain(&mut self, value: impl std::fmt::Display) {
        if !self.cut {
            self.begun = None;
            // Writing to a string cannot fail.
            let _never = write!(self.out, "{value}");
        }
    }

    /// Adds a string, escaped.
    pub fn str(&mut self, value: &str) {
        if !self.cut {
            self.begun = None;
            self.escaped(value);
        }
    }

    /// Adds a count instead of the content: `<12 bytes>`.
    pub fn amount(&mut self, count: usize, of_what: &str) {
        match self.layout {
            Layout::Text => self.plain(format_args!("<{count} {of_what}>")),
            Layout::Json => self.plain(format_args!("{{\"{of_what}\":{count}}}")),
        }
    }

    /// Text stays unquoted if it only has letters, digits and the characters of names. Everything else, and all of
    /// JSON, is quoted.
    fn escaped(&mut self, value: &str) {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:+#".contains(&byte);
        if self.layout == Layout::Text && !value.is_empty() && value.bytes().take(STRING_CHARS_MAX + 1).all(plain) {
            self.out.push_str(&value[..value.len().min(STRING_CHARS_MAX)]);
        } else {
            self.out.push('"');
            for char in value.chars().take(STRING_CHARS_MAX) {
                self.escaped_char(char);
            }
            self.out.push('"');
        }
        let left_out = value.chars().skip(STRING_CHARS_MAX).count();
        if left_out > 0 {
            let at = if self.out.ends_with('"') { self.out.len() - 1 } else { self.out.len() };
            self.out.insert_str(at, &format!("(+{left_out})"));
        }
    }

    fn escaped_char(&mut self, char: char) {
        match char {
            '"' | '\\' => {
                self.out.push('\\');
                self.out.push(char);
            }
            ' '..='~' => self.out.push(char),
            // Printable in any script. Other characters (controls, marks, overrides of direction) are escaped.
            _ if self.layout == Layout::Text && char.escape_debug().len() == 1 => self.out.push(char),
            _ if self.layout == Layout::Text => self.out.extend(char.escape_unicode()),
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let _never = write!(self.out, "\\u{unit:04x}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(layout: Layout, value: &str) -> String {
        let mut line = Line::new(layout);
        line.name("a");
        line.str(value);
        line.finish()
    }

    #[test]
    fn names_stand_as_they_are_and_everything_else_is_quoted() {
        assert_eq!(shown(Layout::Text, "group-1.x"), "a=group-1.x");
        assert_eq!(shown(Layout::Text, ""), "a=\"\"");
        assert_eq!(shown(Layout::Text, "two words"), "a=\"two words\"");
        assert_eq!(shown(Layout::Text, "größe"), "a=\"größe\"");
        assert_eq!(shown(Layout::Json, "größe"), r#"{"a":"gr\u00f6\u00dfe"}"#);
    }

    #[test]
    fn nothing_that_a_terminal_would_obey_gets_into_a_line() {
        let hostile = "\"\\\n\r\u{1b}[2J\u{202e}\u{85}\u{2028}\0";
        let text = r#"a="\"\\\u{a}\u{d}\u{1b}[2J\u{202e}\u{85}\u{2028}\u{0}""#;
        assert_eq!(shown(Layout::Text, hostile), text);
        let json = r#"{"a":"\"\\\u000a\u000d\u001b[2J\u202e\u0085\u2028\u0000"}"#;
        assert_eq!(shown(Layout::Json, hostile), json);
        assert_eq!(shown(Layout::Json, "\u{1f980}"), r#"{"a":"\ud83e\udd80"}"#);
    }

    #[test]
    fn a_long_string_is_cut_and_says_by_how_much() {
        let long = "x".repeat(STRING_CHARS_MAX);
        assert_eq!(shown(Layout::Text, &long), format!("a={long}"));
        assert_eq!(shown(Layout::Text, &format!("{long}yz")), format!("a={long}(+2)"));
        assert_eq!(shown(Layout::Json, &format!("{long}yz")), format!("{{\"a\":\"{long}(+2)\"}}"));
    }

    #[test]
    fn a_name_or_element_without_a_value_is_dropped() {
        for (layout, expected) in [(Layout::Text, "a=[] b={c=1}"), (Layout::Json, r#"{"a":[],"b":{"c":1}}"#)] {
            let mut line = Line::new(layout);
            line.name("a");
            line.open('[');
            line.element();
            line.close(']');
            line.name("b");
            line.open('{');
            line.name("c");
            line.plain(1);
            line.name("d");
            line.close('}');
            line.name("e");
            assert_eq!(line.finish(), expected);
        }
    }

    #[test]
    fn a_long_line_is_cut_between_two_elements_and_what_is_open_is_closed() {
        for (layout, end) in [(Layout::Text, "]} (cut)"), (Layout::Json, "]},\"cut\":true}")] {
            let mut line = Line::new(layout);
            line.name("outer");
            line.open('{');
            line.name("list");
            line.open('[');
            for _ in 0..100_000 {
                line.element();
                line.open('{');
                line.name("n");
                line.plain(1);
                line.close('}');
            }
            line.close(']');
            line.name("behind");
            line.plain(2);
            line.close('}');
            let line = line.finish();
            assert!(line.len() < LINE_BYTES_MAX + 64, "{}", line.len());
            assert!(line.ends_with(end), "{line}");
            assert!(!line.contains("behind"));
        }
    }
}
