# Every recipe runs inside the environment that ./dev makes: ./dev just check

# Show the recipes
default:
    @just --list

# Exactly what CI runs: lint, format, types, floors, tests
check: lint types floors test

# Ruff, all rules minus the ones with a reason in pyproject.toml
lint:
    ruff check .
    ruff format --check .

# Mypy, strict; and the SDK's types as another checker of its users may see them, whole
types:
    mypy
    basedpyright
    basedpyright --ignoreexternal --verifytypes giftrail_client >/dev/null

# The import contracts
floors:
    lint-imports

# All tests, on two processes (arguments go to pytest)
test *ARGS:
    pytest -n 2 --dist worksteal {{ARGS}}

# Format the code and mend what can be mended by rule
fmt:
    ruff check --fix .
    ruff format .

# A partner's day on a throwaway database
demo *ARGS:
    giftrail demo {{ARGS}}

# The figures of the README: all of them (just bench all --small tries the programs), or one: just bench growth --help
bench PROGRAM="all" *ARGS:
    python benchmarks/{{PROGRAM}}.py {{ARGS}}

# Kill and restart everything under load, and count what was lost: just endurance --kills 1000 --restarts 100 --seed 2026
endurance *ARGS:
    python benchmarks/endurance.py {{ARGS}}

# Write the generated documents: the OpenAPI document, settings, the sandbox, the order states
docs:
    python -m giftrail docs write

# Known vulnerabilities of the dependencies (needs a network)
vulnerabilities:
    pip-audit --requirement requirements.lock --require-hashes --disable-pip

# Pin the dependencies anew (needs a network)
lock:
    uv lock --upgrade
    uv export --quiet --no-emit-workspace --all-groups --format requirements-txt --no-header --no-annotate --output-file requirements.lock
