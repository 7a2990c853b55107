//! The figures of both programs side by side, and the goals.

/// How often the other program needs the time of ours at least, and the most that ours may need.
type Goal = (&'static str, Option<f64>, Option<f64>);

/// A row without a goal is measured only.
const GOALS: [Goal; 13] = [
    ("cold start to first answer", Some(20.0), Some(50.0)),
    ("memory, idle", Some(10.0), Some(30.0)),
    ("create a session, p50", Some(10.0), None),
    ("create a session, p99", Some(10.0), None),
    ("list 1,000 sessions", Some(15.0), None),
    ("list 1,000 imported sessions", Some(15.0), None),
    ("page of /api/session", Some(15.0), None),
    ("read 1,000 messages, 5,000 parts", Some(10.0), None),
    ("read them, imported", Some(10.0), None),
    ("fork of that session", Some(150.0), None),
    ("change a part → event arrives, p50", Some(10.0), None),
    ("change a part → event arrives, p99", Some(10.0), None),
    ("one event to 1,000 streams", Some(10.0), None),
];

/// What one program needed for one thing.
pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The CPU time of the server for it, in milliseconds.
    pub(crate) cpu_millis: Option<f64>,
}

impl Figure {
    pub(crate) fn new(what: &'static str, value: f64, unit: &'static str) -> Self {
        Self { what, value, unit, cpu_millis: None }
    }

    pub(crate) fn with_cpu(self, cpu_millis: f64) -> Self {
        Self { cpu_millis: Some(cpu_millis), ..self }
    }
}

/// Prints a row for each figure that both have.
pub(crate) fn print_comparison(ours: &[Figure], theirs: &[Figure]) {
    println!("| what | turnstone | opencode | ratio | CPU ms | CPU ratio | goal | reached |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut missed = 0;
    for mine in ours {
        let Some(their) = theirs.iter().find(|their| their.what == mine.what) else { continue };
        missed += usize::from(!print_row(mine, their));
    }
    match missed {
        0 => println!("all goals reached"),
        missed => println!("{missed} goals not reached"),
    }
}

/// Prints a row; returns false if its goal is not reached.
fn print_row(ours: &Figure, theirs: &Figure) -> bool {
    let goal = GOALS.iter().find(|(what, ..)| *what == ours.what);
    let (min_ratio, max_value) =
        goal.map_or((None, None), |(_, min_ratio, max_value)| (*min_ratio, *max_value));
    let ratio = theirs.value / ours.value;
    let floor = min_ratio.map(|floor| format!("≥ {floor}×"));
    let most = max_value.map(|most| format!("≤ {most} {}", ours.unit));
    let goals: Vec<String> = floor.into_iter().chain(most).collect();
    let is_reached = min_ratio.is_none_or(|floor| ratio >= floor)
        && max_value.is_none_or(|most| ours.value <= most);
    let reached = match (goals.is_empty(), is_reached) {
        (true, _) => "–",
        (false, true) => "yes",
        (false, false) => "NO",
    };
    let goals = if goals.is_empty() { "–".to_owned() } else { goals.join(", ") };
    let (cpu, cpu_ratio) = match (ours.cpu_millis, theirs.cpu_millis) {
        (Some(mine), Some(their)) => {
            (format!("{mine:.2} / {their:.2}"), format!("{:.1}×", their / mine))
        }
        _ => ("–".to_owned(), "–".to_owned()),
    };
    let unit = ours.unit;
    println!(
        "| {} | {:.2} {unit} | {:.2} {unit} | {ratio:.1}× | {cpu} | {cpu_ratio} | {goals} | {reached} |",
        ours.what, ours.value, theirs.value
    );
    is_reached
}
