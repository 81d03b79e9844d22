//! The text of a transcript (tests/protocol/README.md has the language): header, sections, steps, and the effects
//! expected of each. What only a rewrite needs is left to the reader in Python, which also asks for probes and failures.

use std::{collections::BTreeMap, fs, path::Path};

/// One line at the left margin, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Step {
    pub line: usize,
    pub text: String,
    /// Played only in the mode `later`.
    pub is_probe: bool,
    pub effects: Vec<String>,
}

/// What a section is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Main,
    /// An append fails.
    Failed,
    /// Something comes between an append and its end.
    Later,
}

#[derive(Clone, Debug)]
pub struct Section {
    pub kind: Kind,
    pub title: String,
    pub steps: Vec<Step>,
}

/// One file.
#[derive(Clone, Debug)]
pub struct Transcript {
    pub name: String,
    pub config: BTreeMap<String, String>,
    /// A file of `given/`, played first.
    pub given: Option<String>,
    /// The first step finds the coordinator loading.
    pub is_loading: bool,
    /// The main one first.
    pub sections: Vec<Section>,
}

impl Transcript {
    /// Reads a file; panics with file and line if it is not well-formed.
    pub fn read(path: &Path) -> Transcript {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let name = format!("{}/{}", folder.display(), path.file_stem().unwrap_or_default().display());
        let mut transcript =
            Transcript { name, config: BTreeMap::new(), given: None, is_loading: false, sections: Vec::new() };
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (at, line) in text.lines().enumerate() {
            let taken = transcript.take(at + 1, line.trim_end());
            taken.unwrap_or_else(|what| panic!("{}:{}: {what}: `{line}`", path.display(), at + 1));
        }
        assert!(!transcript.sections.is_empty(), "{}: no `---` line", path.display());
        transcript
    }

    fn take(&mut self, number: usize, line: &str) -> Result<(), &'static str> {
        if let Some(heading) = line.strip_prefix("---") {
            self.sections.push(section(heading, self.sections.is_empty())?);
            return Ok(());
        }
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let Some(section) = self.sections.last_mut() else { return self.take_header(line) };
        if let Some(effect) = line.strip_prefix("  ") {
            let step = section.steps.last_mut().ok_or("an effect must stand below its step")?;
            step.effects.push(effect.trim().to_owned());
        } else {
            let probe = line.strip_prefix("~ ");
            let text = probe.unwrap_or(line).trim().to_owned();
            section.steps.push(Step { line: number, text, is_probe: probe.is_some(), effects: Vec::new() });
        }
        Ok(())
    }

    fn take_header(&mut self, line: &str) -> Result<(), &'static str> {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "rows" | "doc" => {}
            "config" => {
                for pair in rest.split_whitespace() {
                    let (name, value) = pair.split_once('=').ok_or("a setting needs a value")?;
                    self.config.insert(name.to_owned(), value.to_owned());
                }
            }
            "given" => self.given = Some(rest.to_owned()),
            "start" if rest == "loading" => self.is_loading = true,
            _ => return Err("no header line"),
        }
        Ok(())
    }
}

/// ` failed: title`, ` later`, or nothing for the first one.
fn section(heading: &str, is_first: bool) -> Result<Section, &'static str> {
    let (kind, title) = heading.split_once(':').unwrap_or((heading, ""));
    let kind = match kind {
        "" => Kind::Main,
        " failed" => Kind::Failed,
        " later" => Kind::Later,
        _ => return Err("no kind of section"),
    };
    if (kind == Kind::Main) != is_first {
        return Err("the first section is `---`, later ones name their kind");
    }
    Ok(Section { kind, title: title.trim().to_owned(), steps: Vec::new() })
}
