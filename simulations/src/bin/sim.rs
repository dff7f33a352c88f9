//! `sim --seed N [--count K]`: runs seeds and says how to run a failing one again.

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut seed, mut count) = (0_u64, 1_u64);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse().ok());
        match (argument.as_str(), value) {
            ("--seed", Some(value)) => seed = value,
            ("--count", Some(value)) => count = value,
            _ => {
                eprintln!("usage: sim [--seed N] [--count K]");
                return std::process::ExitCode::from(2);
            }
        }
    }
    for seed in seed..seed.saturating_add(count) {
        let config = sovm_sim::Config::of_seed(seed);
        println!("{config:?}");
        match sovm_sim::run(config) {
            Ok(report) => println!(
                "held: {} ops, {} sessions cut, {} sessions to converge",
                report.issued, report.cut, report.healing_sessions
            ),
            Err(failure) => {
                println!("{failure}");
                println!("reproduce: cargo run -p sovm-sim --bin sim -- --seed {seed}");
                return std::process::ExitCode::FAILURE;
            }
        }
    }
    std::process::ExitCode::SUCCESS
}
