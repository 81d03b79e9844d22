//! Every transcript of `python/rota/conform/vectors`, in every mode, on the core, without Python. tests/protocol has the
//! language, and plays the same files to the core through Python and to the model.

mod cast;
mod player;
mod render;
mod requests;
mod text;

use std::{collections::BTreeMap, fs, path::PathBuf};

use rota_core::Config;

use player::Player;
use text::{Kind, Section, Transcript};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/rota/conform/vectors");

/// A section to play, with or without its probes.
#[derive(Clone, Copy)]
struct Part<'a> {
    section: &'a Section,
    probes: bool,
}

/// One playing of one section of a transcript in one mode.
struct Run<'a> {
    name: String,
    transcript: &'a Transcript,
    given: Option<Part<'a>>,
    part: Part<'a>,
    config: Config,
}

impl Run<'_> {
    /// `Err`: where it left its text, and how. `loses`: an answer that does not arrive.
    fn play(&self, loses: Option<usize>) -> Result<(), String> {
        let mut player = Player::new(self.config.clone(), self.transcript.is_loading, loses)?;
        for (part, is_given) in self.given.map(|given| (given, true)).into_iter().chain([(self.part, false)]) {
            if !is_given && self.given.is_some() {
                player.cast.rebase();
            }
            for step in part.section.steps.iter().filter(|step| part.probes || !step.is_probe) {
                let place =
                    format!("line {}{}: {}", step.line, if is_given { " of what is given" } else { "" }, step.text);
                let effects = player.play(step).map_err(|error| format!("{place}: {error}"))?;
                if effects != step.effects {
                    return Err(format!("{place}\n  expected {:#?}\n  found {effects:#?}", step.effects));
                }
            }
        }
        player.finish()
    }
}

/// The files, in order.
fn files() -> Vec<PathBuf> {
    let folders =
        fs::read_dir(VECTORS).expect("the folder of the vectors").map(|entry| entry.expect("a folder").path());
    let files = folders.filter(|folder| folder.is_dir()).flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let paths = files.map(|entry| entry.expect("a file").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|ext| ext == "txt")).collect();
    paths.sort();
    paths
}

fn read_all() -> BTreeMap<String, Transcript> {
    files().iter().map(|path| Transcript::read(path)).map(|read| (read.name.clone(), read)).collect()
}

fn config(settings: &BTreeMap<String, String>) -> Config {
    let mut config = Config::default();
    for (name, value) in settings {
        let number: u32 = value.parse().expect("a number");
        match name.as_str() {
            "group.initial.rebalance.delay.ms" => config.group_initial_rebalance_delay_ms = number,
            "group.max.pending.members" => config.group_max_pending_members = number,
            "group.max.session.timeout.ms" => config.group_max_session_timeout_ms = number as i32,
            "group.max.size" => config.group_max_size = number,
            "group.min.session.timeout.ms" => config.group_min_session_timeout_ms = number as i32,
            "offsets.retention.check.interval.ms" => config.offsets_retention_check_interval_ms = number.into(),
            "offsets.retention.minutes" => config.offsets_retention_minutes = number,
            _ => panic!("no transcript has set {name} so far: it needs a line here"),
        }
    }
    config
}

/// Every playing: the main section in the three modes, the other sections once.
fn runs(all: &BTreeMap<String, Transcript>) -> Vec<Run<'_>> {
    all.values().flat_map(|transcript| runs_of(transcript, all)).collect()
}

fn runs_of<'a>(transcript: &'a Transcript, all: &'a BTreeMap<String, Transcript>) -> Vec<Run<'a>> {
    let given = transcript.given.as_ref().map(|name| &all[&format!("given/{name}")]);
    let usual = |probes| given.map(|given| Part { section: &given.sections[0], probes });
    let failing = given.and_then(|given| given.sections.iter().find(|section| section.kind == Kind::Failed));
    let after_failure = failing.map(|section| Part { section, probes: true });
    let mut settings = given.map_or_else(BTreeMap::new, |given| given.config.clone());
    settings.extend(transcript.config.clone());
    let run = |mode: &str, given, section: &'a Section, probes| Run {
        name: format!("{} {mode} {}", transcript.name, section.title),
        transcript,
        given,
        part: Part { section, probes },
        config: config(&settings),
    };
    let (main, others) = transcript.sections.split_first().expect("at least one section");
    let mut runs = vec![run("now", usual(false), main, false), run("later", usual(true), main, true)];
    if after_failure.is_some() || others.iter().all(|section| section.kind != Kind::Failed) {
        runs.push(run("failed", after_failure.or(usual(false)), main, false));
    }
    runs.extend(others.iter().map(|section| match section.kind {
        Kind::Failed => run("failed", after_failure.or(usual(false)), section, true),
        Kind::Main | Kind::Later => run("later", usual(true), section, true),
    }));
    runs
}

#[test]
fn the_core_does_what_the_transcripts_say() {
    let all = read_all();
    let played = runs(&all);
    assert!(played.len() > 700, "{} runs", played.len());
    let told = played.iter().filter_map(|run| Some(format!("{}\n{}\n", run.name, run.play(None).err()?)));
    let differing: String = told.collect();
    assert!(differing.is_empty(), "{differing}");
}

/// A player that reads nothing would be content with everything.
#[test]
fn a_lost_answer_is_noticed_in_every_transcript() {
    let all = read_all();
    let noticed = |run: &Run<'_>| run.play(Some(0)).is_err();
    let unnoticed: Vec<String> = runs(&all).into_iter().filter(|run| !noticed(run)).map(|run| run.name).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}

#[test]
fn what_is_no_step_is_told() {
    for text in ["wait", "stored", "a Hertbeat", "a Heartbeat loudly", "a Heartbeat id=$z", "a Heartbeat generation=G"]
    {
        let mut player = Player::new(Config::default(), false, None).expect("an empty log");
        let step = text::Step { line: 1, text: text.to_owned(), is_probe: false, effects: Vec::new() };
        assert!(player.play(&step).is_err(), "`{text}`");
    }
}
