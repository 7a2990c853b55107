# Show the recipes
_default:
    @just --list --unsorted

# Run everything a change must pass: the command of the README
check:
    scripts/test

# Run the tests, or those that match: just test -p turnstone-store
test *args:
    cargo nextest run --workspace {{ args }}

# Format the code
fmt:
    cargo fmt --all

# Lint as the gate does
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Build the documentation, private items too
doc:
    RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --document-private-items

# Run the tests against other programs
interop *args:
    cargo nextest run --workspace -E 'binary(/interop/)' {{ args }}

# Measure against the limit and against peers
bench *args:
    cargo run --release -p turnstone-bench -- {{ args }}

# Check the rules of the repository that the compiler does not check
tidy:
    cargo nextest run -p turnstone-testkit --test tidy
