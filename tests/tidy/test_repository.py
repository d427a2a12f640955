"""The repository about itself: what a reviewer would have to look for again and again."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from giftrail.cli import documents
from giftrail.events import model as events
from giftrail.orders import failures
from giftrail.partner_api import problems

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "giftrail"
DOORS = {"partner_api", "provider_api", "voucher_page", "workers", "cli", "demo"}
ROOMS = {
    "audit", "orders", "reversals", "spending", "calls", "breakers", "catalog", "wallet", "vouchers", "providers",
    "delivery", "attempts", "webhooks", "events", "partners", "operators",
}  # fmt: skip
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60
MAX_DECISION_LINES = 40
NEVER_NAMES = {
    "utils",
    "helpers",
    "common",
    "core",
    "base",
    "misc",
    "types",
    "service",
    "handler",
    "manager",
    "constants",
}
# What the workplace calls itself has no place in the project.
FOREIGN_WORDS = re.compile(r"/work/|\.library|subagent|files\.pythonhosted|registry\.npmjs", re.IGNORECASE)

_modules = sorted(SOURCE.rglob("*.py"))


def place(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_there_is_something_to_look_at() -> None:
    assert len(_modules) > 50


@pytest.mark.parametrize("path", _modules, ids=place)
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < MAX_FUNCTION_LINES, node.name


@pytest.mark.parametrize("path", _modules, ids=place)
def test_sql_stands_only_in_stores_and_in_the_ground(path: Path) -> None:
    if path.name == "store.py" or path.parent.name == "db":
        return
    sql = re.compile(r"\b(SELECT\b.+\bFROM|INSERT INTO|DELETE FROM|UPDATE\b.+\bSET|CREATE (TABLE|INDEX))\b")
    for text in _strings(path):
        assert not sql.search(text), text


@pytest.mark.parametrize("path", _modules, ids=place)
def test_nothing_below_the_doors_reads_the_clock(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0]
    if room not in ROOMS | {"kit", "db", "leases"}:
        return
    clock = re.compile(r"\b(datetime\.now|datetime\.utcnow|date\.today|time\.time|time\.monotonic|perf_counter)\b")
    assert not clock.search(path.read_text())


@pytest.mark.parametrize("path", _modules, ids=place)
def test_doors_only_read_from_stores(path: Path) -> None:
    if path.relative_to(SOURCE).parts[0] not in DOORS:
        return
    tree = ast.parse(path.read_text())
    stores = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.name == "store"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in stores:
            assert node.attr.startswith(("read_", "find_", "list_")), node.attr


@pytest.mark.parametrize("path", _modules, ids=place)
def test_names_say_something(path: Path) -> None:
    assert path.stem not in NEVER_NAMES
    assert path.parent.name not in NEVER_NAMES


def test_every_module_is_used() -> None:
    imported = set()
    for path in _modules:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
    for path in _modules:
        if path.name not in {"__init__.py", "__main__.py"}:
            name = "giftrail." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            assert name in imported, f"{name} is imported by nobody"


def test_every_code_and_event_is_in_the_contract() -> None:
    contract = (ROOT / "docs" / "contract.md").read_text()
    names = [code.id for code in problems.Code] + [code.name for code in problems.Code]
    names += [*failures.REASONS, *(reason.value for reason in failures.Reason), *(kind.value for kind in events.Kind)]
    assert [name for name in names if name not in contract] == []


@pytest.mark.parametrize("name", sorted(documents.render()))
def test_generated_documents_are_what_the_code_says(name: str) -> None:
    assert (ROOT / name).read_text() == documents.render()[name], "run: just docs"


def test_decisions_are_short_and_numbered() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        assert path.read_text().count("\n") <= MAX_DECISION_LINES, path.name
        assert all(f"## {part}" in path.read_text() for part in ("Context", "Decision", "Consequences", "Alternatives"))


def test_links_in_documents_lead_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_repository_speaks_of_the_project_alone() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in tracked:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".sql", ".json", ".lock", ""} and path != Path(__file__):
            found = FOREIGN_WORDS.search(path.read_text(errors="replace"))
            assert found is None, f"{name}: {found}"


def _strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield " ".join(node.value.split())
