//! Runs one workload and says how many operations it was; without a name it lists them. What it takes is for callgrind
//! to count: `python -m benches.gate`.

use std::process::ExitCode;

use rota_benches::workloads::WORKLOADS;

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        for workload in WORKLOADS {
            println!("{}\t{}", workload.name, workload.each);
        }
        return ExitCode::SUCCESS;
    };
    let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == name) else {
        eprintln!("instructions: there is no workload `{name}`");
        return ExitCode::from(2);
    };
    println!("{}", (workload.run)());
    ExitCode::SUCCESS
}
