//! Bytes that the allocator has handed out for idle members in groups of a hundred: `live_bytes MEMBERS`.

use rota_bench::stage::Stage;

const GROUP_MEMBERS: usize = 100;

fn main() {
    let members = std::env::args().nth(1).and_then(|word| word.parse::<usize>().ok()).expect("live_bytes MEMBERS");
    let mut stage = None;
    let info = allocation_counter::measure(|| {
        stage = Some(Stage::settled(members / GROUP_MEMBERS, GROUP_MEMBERS).expect("Stable groups").0);
    });
    drop(stage);
    println!("{}", info.bytes_current);
}
