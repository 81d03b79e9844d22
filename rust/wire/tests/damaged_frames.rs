//! A million frames that were right before something happened to them: each is refused or decoded, and none panics.
//!
//! `ROTA_FRAMES` says how many, `ROTA_SEED` with which seed to begin: a seed makes [`FRAMES_PER_SEED`] frames, the same
//! ones in every run. `make fuzz` is the long run; what it printed last is where to go on.

mod decoding;
mod frames;
mod samples;

use std::{
    env,
    fmt::Write,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
};

use decoding::decode_frame;
use frames::{count_panics, every_version, frame};

const FRAMES_PER_SEED: u64 = 100_000;

/// What a hostile length looks like in each layout.
const LENGTHS: [&[u8]; 8] = [
    &[0xff; 4],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0x80, 0x00],
    &[0x00, 0x98, 0x96, 0x80],
    &[0xff, 0xff],
    &[0x00, 0x00, 0x00, 0x00],
];

/// Numbers that are the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn of_seed(seed: u64) -> Numbers {
        // Neighbouring seeds begin far from each other, and none at 0.
        Numbers((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Does one to four things to a frame. The key and version stay, or nearly every frame would be refused for them.
fn damage(frame: &mut Vec<u8>, samples: &[Vec<u8>], numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        let at = 4 + numbers.below(frame.len() - 4);
        match numbers.below(8) {
            0 => frame[at] ^= 1 << numbers.below(8),
            1 => frame[at] = numbers.below(256) as u8,
            2 => frame.truncate(at.max(5)),
            3 => {
                let length = LENGTHS[numbers.below(LENGTHS.len())];
                let end = (at + length.len()).min(frame.len());
                frame.splice(at..end, length.iter().copied());
            }
            4 => frame.insert(at, numbers.below(256) as u8),
            // A part of it once more: an element too many, or a field where another one is expected.
            5 => {
                let end = (at + 1 + numbers.below(24)).min(frame.len());
                let part = frame[at..end].to_vec();
                frame.splice(at..at, part);
            }
            // A part of it is missing.
            6 => drop(frame.drain(at..(at + 1 + numbers.below(8)).min(frame.len()))),
            // The end of another request, of the next version as a rule.
            _ => {
                let other = &samples[numbers.below(samples.len())];
                let from = other.len().min(at);
                frame.truncate(at);
                frame.extend_from_slice(&other[from..]);
            }
        }
        if frame.len() < 5 {
            frame.resize(5, 0);
        }
    }
}

fn number_from(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn a_million_damaged_frames_are_refused_or_decoded_and_none_panics() {
    let (frames, first_seed) = (number_from("ROTA_FRAMES", 1_000_000), number_from("ROTA_SEED", 0));
    let samples: Vec<Vec<u8>> =
        every_version().map(|(api, version)| frame(api, version, &samples::body(api, version))).collect();
    let panics = count_panics();
    let (mut done, mut refused) = (0, 0);
    for seed in first_seed.. {
        if seed % 100 == 0 && frames > 1_000_000 {
            println!("{done} frames are done, {refused} of them refused; next is seed {seed}");
        }
        let numbers = &mut Numbers::of_seed(seed);
        for at in 0..FRAMES_PER_SEED.min(frames - done) as usize {
            let mut frame = samples[at % samples.len()].clone();
            damage(&mut frame, &samples, numbers);
            let decoded = catch_unwind(AssertUnwindSafe(|| decode_frame(&frame)));
            let fell = panics.load(Ordering::Relaxed);
            assert!(decoded.is_ok() && fell == 0, "frame {at} of seed {seed} panics: {frame:02x?}");
            refused += u64::from(!matches!(decoded, Ok(Ok(()))));
        }
        done += FRAMES_PER_SEED.min(frames - done);
        if done == frames {
            println!("{done} frames are done, {refused} of them refused; the last was of seed {seed}");
            break;
        }
    }
    // Damage that is noticed nearly always or nearly never would test little.
    assert!((frames / 10..frames - frames / 10).contains(&refused), "{refused} of {frames} were refused");
}

/// What `tests/wire` damages on its way to a server, and what the targets of `rust/fuzz` begin with.
#[test]
fn the_samples_that_others_damage_are_those_of_every_api_and_version() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/wire/requests.txt");
    let mut wanted =
        "# API, version, request from its header on. ROTA_WRITE_SAMPLES=1 cargo test -p rota-wire\n".to_owned();
    for (api, version) in every_version() {
        let hex = frame(api, version, &samples::body(api, version)).iter().fold(String::new(), |mut hex, byte| {
            let _infallible = write!(hex, "{byte:02x}");
            hex
        });
        let _infallible = writeln!(wanted, "{} {version} {hex}", api.key);
    }
    if env::var_os("ROTA_WRITE_SAMPLES").is_some() {
        fs::write(path, &wanted).unwrap();
    }
    assert!(fs::read_to_string(path).unwrap() == wanted, "tests/wire/requests.txt is out of date");
}
