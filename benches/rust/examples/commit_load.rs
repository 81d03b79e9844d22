//! Offset commits over many connections, one request at a time on each, and the disk's own rate beside them.
//!
//! ```text
//! commit_load run HOST:PORT CONNECTIONS SECONDS     every connection commits one offset of a group of its own
//! commit_load fetch HOST:PORT CONNECTIONS SECONDS   every connection fetches that offset instead
//! commit_load steady HOST:PORT CONNECTIONS KEYS RATE SECONDS   so many commits a second, of KEYS groups in turn; a line
//!                                                             of JSON when it begins, and one for each second
//! commit_load fill HOST:PORT GROUPS PARTITIONS      every group commits once, for all partitions
//! commit_load floor DIR SECONDS                     4 KiB written in place and synced, again and again
//! ```
//!
//! The topic is `orders`. One line of JSON is printed, unless more are named.

use std::{
    env, error, fs,
    io::{self, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinSet,
};

type Outcome<T> = Result<T, Box<dyn error::Error + Send + Sync>>;

const FILLING_CONNECTIONS: usize = 32;
const BLOCK_BYTES: usize = 4_096;
const READY_WITHIN: Duration = Duration::from_mins(1);
const RETRY_PAUSE: Duration = Duration::from_millis(50);

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as i16).to_be_bytes());
    out.extend(text.as_bytes());
}

/// Writes the length of a frame to its begin.
fn whole(mut frame: Vec<u8>) -> Vec<u8> {
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// An `OffsetFetch` v5 of one partition.
fn fetch(group: &str) -> Vec<u8> {
    let mut frame = b"\0\0\0\0\0\x09\0\x05\0\0\0\x01".to_vec();
    text(&mut frame, "load");
    text(&mut frame, group);
    frame.extend(1_i32.to_be_bytes());
    text(&mut frame, "orders");
    frame.extend(1_i32.to_be_bytes());
    frame.extend(0_i32.to_be_bytes());
    whole(frame)
}

/// An `OffsetCommit` v7 without a member.
fn commit(group: &str, partitions: i32, offset: i64) -> Vec<u8> {
    let mut frame = b"\0\0\0\0\0\x08\0\x07\0\0\0\x01".to_vec();
    text(&mut frame, "load");
    text(&mut frame, group);
    frame.extend((-1_i32).to_be_bytes());
    text(&mut frame, "");
    frame.extend((-1_i16).to_be_bytes());
    frame.extend(1_i32.to_be_bytes());
    text(&mut frame, "orders");
    frame.extend(partitions.to_be_bytes());
    for partition in 0..partitions {
        frame.extend(partition.to_be_bytes());
        frame.extend(offset.to_be_bytes());
        frame.extend((-1_i32).to_be_bytes());
        text(&mut frame, "");
    }
    whole(frame)
}

/// Sends a request and reads its answer, which ends with the error: that of a commit's last partition, or that of a fetch.
async fn ask(client: &mut TcpStream, frame: &[u8], answer: &mut Vec<u8>) -> Outcome<i16> {
    client.write_all(frame).await?;
    let length = client.read_u32().await? as usize;
    answer.resize(length, 0);
    client.read_exact(answer).await?;
    let code = answer.last_chunk().ok_or("an answer is empty")?;
    Ok(i16::from_be_bytes(*code))
}

/// A connection whose group's coordinator answers.
async fn ready(address: &str, group: &str) -> Outcome<TcpStream> {
    let began = Instant::now();
    let mut client = TcpStream::connect(address).await?;
    client.set_nodelay(true)?;
    let mut answer = Vec::new();
    while began.elapsed() < READY_WITHIN {
        if ask(&mut client, &commit(group, 1, 0), &mut answer).await? == 0 {
            return Ok(client);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    Err(format!("`{group}` has no coordinator").into())
}

/// Microseconds of each request of one connection until the deadline.
async fn work(mut client: TcpStream, group: String, is_fetch: bool, until: Instant) -> Outcome<Vec<u32>> {
    let request = |offset| if is_fetch { fetch(&group) } else { commit(&group, 1, offset) };
    let (mut took, mut answer) = (Vec::new(), Vec::new());
    let mut began = Instant::now();
    while began < until {
        let code = ask(&mut client, &request(took.len() as i64), &mut answer).await?;
        if code != 0 {
            return Err(format!("a request of `{group}` was answered {code}").into());
        }
        let now = Instant::now();
        took.push(now.duration_since(began).as_micros() as u32);
        began = now;
    }
    Ok(took)
}

async fn run(address: &str, is_fetch: bool, connections: usize, seconds: f64) -> Outcome<String> {
    let mut clients = Vec::new();
    for at in 0..connections {
        let group = format!("load-{at}");
        clients.push((ready(address, &group).await?, group));
    }
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(seconds);
    let mut tasks: JoinSet<Outcome<Vec<u32>>> = JoinSet::new();
    for (client, group) in clients {
        tasks.spawn(work(client, group, is_fetch, until));
    }
    let mut took = Vec::new();
    while let Some(done) = tasks.join_next().await {
        took.extend(done??);
    }
    let rate = f64::from(took.len() as u32) / began.elapsed().as_secs_f64();
    took.sort_unstable();
    let quantile = |share: usize| took.get(took.len() * share / 100).copied().unwrap_or(0);
    let name = if is_fetch { "fetches" } else { "commits" };
    Ok(format!(
        r#"{{"{name}": {}, "per_s": {rate:.1}, "p50_us": {}, "p99_us": {}}}"#,
        took.len(),
        quantile(50),
        quantile(99)
    ))
}

/// One connection's share of the commits, each at its time, the first one at `due`. Microseconds from that time to the
/// answer, with the second of the time.
async fn keep_pace(
    mut client: TcpStream,
    keys: Range<usize>,
    (began, mut due): (Instant, Instant),
    pause: Duration,
    seconds: usize,
    told: UnboundedSender<(usize, u32)>,
) -> Outcome<()> {
    let mut answer = Vec::new();
    for (offset, key) in keys.cycle().enumerate() {
        tokio::time::sleep_until(due.into()).await;
        let second = due.duration_since(began).as_secs() as usize;
        if second >= seconds {
            break;
        }
        let group = format!("load-{key}");
        let code = ask(&mut client, &commit(&group, 1, offset as i64), &mut answer).await?;
        if code != 0 {
            return Err(format!("a commit of `{group}` was answered {code}").into());
        }
        told.send((second, due.elapsed().as_micros() as u32))?;
        due += pause;
    }
    Ok(())
}

/// Prints a line when it begins, and one for each second at the end: a commit may be answered late.
async fn steady(address: &str, connections: usize, keys: usize, rate: f64, seconds: usize) -> Outcome<()> {
    if keys < connections {
        return Err(format!("{keys} keys are too few for {connections} connections").into());
    }
    let mut clients = Vec::new();
    for at in 0..connections {
        clients.push(ready(address, &format!("load-{}", keys * at / connections)).await?);
    }
    let (began, apart) = (Instant::now(), Duration::from_secs_f64(1.0 / rate));
    println!(r#"{{"began": true}}"#);
    let (told, mut heard) = unbounded_channel();
    let mut tasks: JoinSet<Outcome<()>> = JoinSet::new();
    for (at, client) in clients.into_iter().enumerate() {
        let own = keys * at / connections..keys * (at + 1) / connections;
        let due = began + apart * at as u32;
        tasks.spawn(keep_pace(client, own, (began, due), apart * connections as u32, seconds, told.clone()));
    }
    drop(told);
    let mut took: Vec<Vec<u32>> = vec![Vec::new(); seconds];
    loop {
        tokio::select! {
            Some((second, micros)) = heard.recv() => took[second].push(micros),
            Some(done) = tasks.join_next() => done??,
            else => break,
        }
    }
    took.iter_mut().enumerate().for_each(|(second, took)| println!("{}", of_second(second, took)));
    Ok(())
}

fn of_second(second: usize, took: &mut [u32]) -> String {
    took.sort_unstable();
    let quantile = |share: usize| took.get(took.len() * share / 100).copied().unwrap_or(0);
    let (p50, p99, most) = (quantile(50), quantile(99), took.last().copied().unwrap_or(0));
    format!(r#"{{"second": {second}, "commits": {}, "p50_us": {p50}, "p99_us": {p99}, "max_us": {most}}}"#, took.len())
}

async fn fill(address: &str, groups: usize, partitions: i32) -> Outcome<String> {
    let mut tasks: JoinSet<Outcome<()>> = JoinSet::new();
    for first in 0..FILLING_CONNECTIONS {
        let address = address.to_owned();
        tasks.spawn(async move {
            let (mut client, mut answer) = (ready(&address, "fill-0").await?, Vec::new());
            for at in (first..groups).step_by(FILLING_CONNECTIONS) {
                let frame = commit(&format!("fill-{at}"), partitions, at as i64);
                let began = Instant::now();
                while ask(&mut client, &frame, &mut answer).await? != 0 {
                    if began.elapsed() > READY_WITHIN {
                        return Err(format!("`fill-{at}` is not committed").into());
                    }
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(format!(r#"{{"offsets": {}}}"#, groups * partitions as usize))
}

fn floor(dir: &Path, seconds: f64) -> io::Result<String> {
    let path = dir.join("floor");
    let mut file = fs::File::create(&path)?;
    file.write_all(&[0; BLOCK_BYTES])?;
    file.sync_all()?;
    let (began, mut syncs) = (Instant::now(), 0_u32);
    while began.elapsed().as_secs_f64() < seconds {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&[syncs as u8; BLOCK_BYTES])?;
        file.sync_data()?;
        syncs += 1;
    }
    let rate = f64::from(syncs) / began.elapsed().as_secs_f64();
    fs::remove_file(&path)?;
    Ok(format!(r#"{{"per_s": {rate:.1}}}"#))
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let line = match words[..] {
        [kind @ ("run" | "fetch"), address, connections, seconds] => {
            runtime.block_on(run(address, kind == "fetch", connections.parse()?, seconds.parse()?))?
        }
        ["steady", address, connections, keys, rate, seconds] => {
            let (connections, keys) = (connections.parse()?, keys.parse()?);
            return runtime.block_on(steady(address, connections, keys, rate.parse()?, seconds.parse()?));
        }
        ["fill", address, groups, partitions] => {
            runtime.block_on(fill(address, groups.parse()?, partitions.parse()?))?
        }
        ["floor", dir, seconds] => floor(Path::new(dir), seconds.parse()?)?,
        _ => {
            return Err("run HOST:PORT CONNECTIONS SECONDS | fetch HOST:PORT CONNECTIONS SECONDS | \
                 steady HOST:PORT CONNECTIONS KEYS RATE SECONDS | fill HOST:PORT GROUPS PARTITIONS | floor DIR SECONDS"
                .into());
        }
    };
    println!("{line}");
    Ok(())
}
