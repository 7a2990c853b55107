//! The table of crates: what each is for, which crates it uses, and what it may not know.
//!
//! This is the only place that says so. `crate_graph` compares it with the manifests,
//! `crate_boundaries` with the code, and the table in ARCHITECTURE.md is printed from it.

/// Something that only some crates may know, and how its use is recognised.
pub(crate) struct Capability {
    pub(crate) name: &'static str,
    /// Libraries that give it, by the name of their package.
    pub(crate) libraries: &'static [&'static str],
    /// Paths of two parts, such as `std::fs` or `Instant::now`.
    pub(crate) paths: &'static [&'static str],
    /// Identifiers that alone give it away.
    pub(crate) words: &'static [&'static str],
    /// Methods: `elapsed` for `.elapsed(`.
    pub(crate) methods: &'static [&'static str],
    /// Macros: `println` for `println!`.
    pub(crate) macros: &'static [&'static str],
    /// Text in string literals that gives it away.
    pub(crate) literals: &'static [&'static str],
}

const UNUSED: Capability = Capability {
    name: "",
    libraries: &[],
    paths: &[],
    words: &[],
    methods: &[],
    macros: &[],
    literals: &[],
};

const SQLITE: Capability =
    Capability { name: "SQLite", libraries: &["rusqlite", "libsqlite3-sys"], ..UNUSED };
const HTTP: Capability = Capability {
    name: "HTTP",
    libraries: &[
        "axum",
        "http",
        "http-body-util",
        "hyper",
        "hyper-util",
        "reqwest",
        "tokio-tungstenite",
        "tower-http",
    ],
    ..UNUSED
};
const ASYNC: Capability = Capability {
    name: "async",
    libraries: &["tokio", "futures-util", "rmcp"],
    words: &["async"],
    ..UNUSED
};
const FILES: Capability = Capability {
    name: "files",
    libraries: &["fs-err", "tempfile"],
    paths: &["std::fs", "rustix::fs"],
    methods: &["canonicalize", "exists", "read_dir", "symlink_metadata", "try_exists"],
    ..UNUSED
};
const PROGRAMS: Capability = Capability {
    name: "starting programs",
    paths: &["Command::new", "process::Command"],
    ..UNUSED
};
const GIT: Capability = Capability {
    name: "git",
    libraries: &["gix"],
    paths: &["turnstone_engine::Git", "turnstone_process::Git"],
    ..UNUSED
};
const CLOCK: Capability = Capability {
    name: "clock",
    libraries: &["chrono"],
    paths: &["SystemTime::now", "Instant::now"],
    methods: &["elapsed"],
    ..UNUSED
};
const RANDOMNESS: Capability = Capability {
    name: "randomness",
    libraries: &["fastrand", "getrandom", "rand", "uuid"],
    words: &["RandomState"],
    ..UNUSED
};
const ENVIRONMENT: Capability = Capability {
    name: "environment",
    libraries: &["etcetera"],
    paths: &[
        "env::args",
        "env::args_os",
        "env::current_dir",
        "env::current_exe",
        "env::home_dir",
        "env::temp_dir",
        "env::var",
        "env::var_os",
        "env::vars",
        "env::vars_os",
    ],
    ..UNUSED
};
const TERMINAL: Capability = Capability {
    name: "terminal output",
    libraries: &["anstream", "clap", "comfy-table", "indicatif"],
    paths: &["io::stdout", "io::stderr"],
    macros: &["print", "println", "eprint", "eprintln"],
    ..UNUSED
};
const SESSIONS: Capability = Capability {
    name: "sessions",
    words: &["MessageId", "PartId", "SessionId", "TurnId"],
    ..UNUSED
};
const WIRE: Capability = Capability {
    name: "OpenCode's JSON",
    paths: &["turnstone_core::wire"],
    literals: &[
        "sessionID",
        "messageID",
        "projectID",
        "parentID",
        "providerID",
        "modelID",
        "callID",
    ],
    ..UNUSED
};
const TURNSTONE: Capability = Capability {
    name: "Turnstone",
    libraries: &[
        "turnstone-core",
        "turnstone-engine",
        "turnstone-process",
        "turnstone-snapshot",
        "turnstone-store",
    ],
    literals: &["Turnstone", "turnstone"],
    ..UNUSED
};

/// Every capability that the table names.
pub(crate) const CAPABILITIES: [&Capability; 13] = [
    &SQLITE,
    &HTTP,
    &ASYNC,
    &FILES,
    &PROGRAMS,
    &GIT,
    &CLOCK,
    &RANDOMNESS,
    &ENVIRONMENT,
    &TERMINAL,
    &SESSIONS,
    &WIRE,
    &TURNSTONE,
];

/// Something a crate may not know, except in some of its files.
pub(crate) struct Boundary {
    pub(crate) capability: &'static Capability,
    pub(crate) exceptions: &'static [BoundaryException],
}

/// Files below `src` (a folder ends in `/`) that may use what the rest of their crate may not know.
pub(crate) struct BoundaryException {
    pub(crate) files: &'static [&'static str],
    pub(crate) reason: &'static str,
}

const fn never(capability: &'static Capability) -> Boundary {
    Boundary { capability, exceptions: &[] }
}

const fn except(
    capability: &'static Capability,
    exceptions: &'static [BoundaryException],
) -> Boundary {
    Boundary { capability, exceptions }
}

/// One crate, named after its directory.
pub(crate) struct CrateRow {
    pub(crate) name: &'static str,
    pub(crate) purpose: &'static str,
    /// The crates of ours that its manifest names; development crates may use all.
    pub(crate) uses: &'static [&'static str],
    pub(crate) boundaries: &'static [Boundary],
}

/// The shipped crates, each below those it uses.
pub(crate) const CRATES: [CrateRow; 14] = [
    CrateRow {
        name: "core",
        purpose: "types and rules without I/O: ids, model, events, state machines of turns and tools, permission \
                  rules, redaction, context size, retention, OpenCode's JSON shapes (`wire`)",
        uses: &[],
        boundaries: &[
            never(&SQLITE),
            never(&HTTP),
            never(&ASYNC),
            never(&FILES),
            never(&PROGRAMS),
            never(&GIT),
            never(&CLOCK),
            never(&RANDOMNESS),
            never(&ENVIRONMENT),
            never(&TERMINAL),
        ],
    },
    CrateRow {
        name: "config",
        purpose: "configuration of users and projects: sources, trust, secrets, providers, the catalogue of \
                  models, agents, commands",
        uses: &["core"],
        boundaries: &[
            never(&SQLITE),
            never(&HTTP),
            never(&ASYNC),
            never(&PROGRAMS),
            never(&GIT),
            never(&CLOCK),
            never(&RANDOMNESS),
            never(&ENVIRONMENT),
            never(&TERMINAL),
            never(&SESSIONS),
        ],
    },
    CrateRow {
        name: "store",
        purpose: "the database: log, projections, search, outbox, leases, recovery, salvage",
        uses: &["core"],
        boundaries: &[
            never(&HTTP),
            never(&ASYNC),
            never(&PROGRAMS),
            never(&GIT),
            except(
                &CLOCK,
                &[BoundaryException {
                    files: &["blob.rs"],
                    reason: "the age of a temporary file is compared with the file system's time",
                }],
            ),
            except(
                &RANDOMNESS,
                &[BoundaryException {
                    files: &["lease_owner.rs"],
                    reason: "the name of an owner file is unique among processes",
                }],
            ),
            never(&ENVIRONMENT),
            never(&TERMINAL),
            except(
                &WIRE,
                &[BoundaryException {
                    files: &[
                        "read/wire_json.rs",
                        "salvage/repair.rs",
                        "error.rs",
                        "projection/session.rs",
                        "purge.rs",
                        "read/feed.rs",
                    ],
                    reason: "events are stored in OpenCode's shapes and read without being parsed",
                }],
            ),
        ],
    },
    CrateRow {
        name: "trace",
        purpose: "records what a tree of processes writes, by seccomp user notification; the only unsafe code",
        uses: &[],
        boundaries: &[
            never(&SQLITE),
            never(&HTTP),
            never(&ASYNC),
            never(&PROGRAMS),
            never(&GIT),
            never(&CLOCK),
            never(&RANDOMNESS),
            never(&ENVIRONMENT),
            never(&TERMINAL),
            never(&SESSIONS),
        ],
    },
    CrateRow {
        name: "process",
        purpose: "starts programs: supervisor, process groups, terminals, git without the configuration of a repository",
        uses: &["trace"],
        boundaries: &[
            never(&SQLITE),
            never(&HTTP),
            never(&ASYNC),
            except(
                &CLOCK,
                &[BoundaryException {
                    files: &["deadline.rs"],
                    reason: "a child process is waited for until a deadline",
                }],
            ),
            never(&RANDOMNESS),
            except(
                &ENVIRONMENT,
                &[BoundaryException {
                    files: &["launcher_start.rs"],
                    reason: "the supervisor reads its own arguments",
                }],
            ),
            never(&TERMINAL),
            never(&SESSIONS),
        ],
    },
    CrateRow {
        name: "snapshot",
        purpose: "snapshot stores and the worktree on disk: capture, journal, diff, restore, budget, garbage \
                  collection; reads the user's repository and never writes it",
        uses: &["core"],
        boundaries: &[
            never(&SQLITE),
            never(&HTTP),
            never(&ASYNC),
            except(
                &FILES,
                &[
                    BoundaryException {
                        files: &["worktree/", "restore/file_swap.rs"],
                        reason: "the user's files, from a handle on the root and without following links",
                    },
                    BoundaryException {
                        files: &["user_git/", "git_position.rs", "bounded_file.rs"],
                        reason: "the user's repository and its configuration, read only",
                    },
                    BoundaryException {
                        files: &["foreign_snapshots/"],
                        reason: "OpenCode's snapshot repositories, read only",
                    },
                    BoundaryException {
                        files: &["file_watch/inotify.rs"],
                        reason: "watches on folders of the worktree",
                    },
                    BoundaryException {
                        files: &["unfinished_files.rs"],
                        reason: "which files of the worktree processes have open, from `/proc`",
                    },
                    BoundaryException {
                        files: &[
                            "capture.rs",
                            "forced_paths.rs",
                            "forget.rs",
                            "object_store/",
                            "pack_reuse/",
                            "registry/",
                            "repack.rs",
                            "restore/operation_log.rs",
                            "restore/pending_plan.rs",
                            "snapshot_handle/",
                            "snapshot_store.rs",
                            "stat_cache.rs",
                            "storage_budget.rs",
                            "store_removal.rs",
                        ],
                        reason: "the files of the snapshot stores themselves",
                    },
                ],
            ),
            never(&PROGRAMS),
            never(&CLOCK),
            except(
                &RANDOMNESS,
                &[BoundaryException {
                    files: &["object_store/pack_writer.rs", "restore/pending_plan.rs"],
                    reason: "names of temporary packs and ids of stored plans",
                }],
            ),
            never(&ENVIRONMENT),
            never(&TERMINAL),
            never(&SESSIONS),
        ],
    },
    CrateRow {
        name: "engine",
        purpose: "the application: turns, tool calls and change sets, history, permissions, projects and \
                  worktrees, maintenance, recovery",
        uses: &["config", "core", "process", "snapshot", "store"],
        boundaries: &[
            never(&SQLITE),
            never(&HTTP),
            never(&ASYNC),
            never(&PROGRAMS),
            never(&CLOCK),
            except(
                &RANDOMNESS,
                &[BoundaryException {
                    files: &["id_generator.rs", "tool_calls/file/read_stamps.rs"],
                    reason: "ids, and the names of temporary files",
                }],
            ),
            never(&ENVIRONMENT),
            never(&TERMINAL),
            except(
                &WIRE,
                &[BoundaryException {
                    files: &[
                        "history/fork/copy.rs",
                        "projects/project_lookup.rs",
                        "turns/exec/command_messages.rs",
                    ],
                    reason: "events are stored in OpenCode's shapes",
                }],
            ),
        ],
    },
    CrateRow {
        name: "exchange",
        purpose: "import from and export to OpenCode",
        uses: &["core", "store"],
        boundaries: &[
            except(
                &SQLITE,
                &[BoundaryException {
                    files: &["source/"],
                    reason: "databases of other programs are read here",
                }],
            ),
            never(&HTTP),
            never(&ASYNC),
            never(&PROGRAMS),
            never(&GIT),
            never(&CLOCK),
            never(&RANDOMNESS),
            except(
                &ENVIRONMENT,
                &[BoundaryException {
                    files: &["source/private_copy.rs"],
                    reason: "the private copy of a database goes to the temporary directory",
                }],
            ),
            never(&TERMINAL),
        ],
    },
    CrateRow {
        name: "capnweb",
        purpose: "Cap'n Web: codec and sessions without I/O; adapters for axum and for clients behind features",
        uses: &[],
        boundaries: &[
            never(&SQLITE),
            never(&FILES),
            never(&PROGRAMS),
            never(&GIT),
            never(&ENVIRONMENT),
            never(&TERMINAL),
            never(&TURNSTONE),
        ],
    },
    CrateRow {
        name: "outbound",
        purpose: "outgoing HTTP: TLS with the system's trust store, proxies, redirects, refused addresses",
        uses: &[],
        boundaries: &[
            never(&SQLITE),
            never(&PROGRAMS),
            never(&GIT),
            never(&TERMINAL),
            never(&SESSIONS),
            never(&WIRE),
        ],
    },
    CrateRow {
        name: "mcp",
        purpose: "tools of MCP servers: local programs and remote servers, with everything they send bounded",
        uses: &["outbound", "process"],
        boundaries: &[
            never(&SQLITE),
            never(&HTTP),
            never(&PROGRAMS),
            never(&GIT),
            never(&RANDOMNESS),
            never(&ENVIRONMENT),
            never(&TERMINAL),
            never(&SESSIONS),
            never(&WIRE),
        ],
    },
    CrateRow {
        name: "agent",
        purpose: "the agent: models and their wires, tools, the loop that runs a prompt",
        uses: &["config", "core", "engine", "mcp", "outbound"],
        boundaries: &[
            never(&SQLITE),
            never(&HTTP),
            never(&ASYNC),
            never(&GIT),
            never(&ENVIRONMENT),
            never(&TERMINAL),
        ],
    },
    CrateRow {
        name: "server",
        purpose: "the local HTTP API: OpenCode's routes, native routes, event streams, authentication",
        uses: &["config", "core", "engine", "process", "store"],
        boundaries: &[
            never(&SQLITE),
            never(&PROGRAMS),
            never(&GIT),
            except(
                &CLOCK,
                &[BoundaryException {
                    files: &["runner_registry.rs", "event/stream_progress.rs", "route/abort.rs"],
                    reason: "tokio timers: a wait ends at a deadline",
                }],
            ),
            except(
                &RANDOMNESS,
                &[BoundaryException {
                    files: &["random.rs"],
                    reason: "tokens of runners and references of errors",
                }],
            ),
            never(&ENVIRONMENT),
            never(&TERMINAL),
        ],
    },
    CrateRow {
        name: "cli",
        purpose: "the program `turnstone`: arguments, environment, clock, output, exit codes",
        uses: &[
            "agent", "config", "core", "engine", "exchange", "process", "server", "snapshot",
            "store",
        ],
        boundaries: &[
            never(&SQLITE),
            never(&HTTP),
            except(
                &ASYNC,
                &[BoundaryException {
                    files: &["command/serve/server_thread.rs"],
                    reason: "the runtime of the server is started here",
                }],
            ),
            never(&GIT),
            except(
                &RANDOMNESS,
                &[BoundaryException {
                    files: &["ui/style.rs"],
                    reason: "marks of styles that no output can contain",
                }],
            ),
            except(
                &PROGRAMS,
                &[BoundaryException {
                    files: &["command/tour/sandbox.rs"],
                    reason: "the tour runs the program in a sandbox",
                }],
            ),
            except(&CLOCK, &[BoundaryException { files: &["clock.rs"], reason: "the only clock" }]),
            except(
                &ENVIRONMENT,
                &[BoundaryException {
                    files: &["environment.rs"],
                    reason: "the only place that reads the environment",
                }],
            ),
        ],
    },
];

/// Crates that never leave the repository; they may use all others, and no shipped crate uses them.
pub(crate) const DEVELOPMENT_CRATES: [(&str, &str); 2] = [
    ("testkit", "fixtures; crash, fault and power-loss injection; the checks of the repository"),
    ("bench", "measurements"),
];

/// Returns the package of one of our crates: `turnstone-store` for `store`.
pub(crate) fn package_of(name: &str) -> String {
    match name {
        "cli" => "turnstone".to_owned(),
        "capnweb" => "capnweb".to_owned(),
        _ => format!("turnstone-{name}"),
    }
}
