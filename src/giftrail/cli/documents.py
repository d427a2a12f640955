"""The documents that are drawn from the code, written or checked."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from giftrail.cli import desk
from giftrail.demo import sandbox
from giftrail.orders import states
from giftrail.partner_api import app, openapi
from giftrail.settings import Settings


def render() -> dict[str, str]:
    """Path inside the repository → what must stand there."""
    document = msgspec.json.format(msgspec.json.encode(openapi.document(app.ENDPOINTS), order="sorted"), indent=2)
    return {
        "docs/settings.md": _settings(),
        "docs/openapi/partner.json": document.decode() + "\n",
        "docs/sandbox.md": (
            "# The sandbox\n\n"
            "Brands that do what their names say, the same each time, in every environment but production."
            " `giftrail demo` loads them, and `giftrail sandbox PARTNER` puts them into an installation of yours."
            " Denominations 100, 250, 500 and 1000 unless said otherwise.\n\n"
            "Drawn from `src/giftrail/demo/sandbox.py` by `just docs`.\n\n"
            f"{sandbox.draw()}\n"
        ),
        "docs/states.md": (
            "# The states of an order\n\n"
            "Drawn from `src/giftrail/orders/states.py` by `just docs`; what each state means is in"
            " [contract.md](contract.md), clause 4.\n\n"
            f"```mermaid\n{states.draw()}\n```\n"
        ),
    }


def _settings() -> str:
    lines = [
        "# Settings",
        "",
        "Read from the environment. Drawn from `src/giftrail/settings.py` by `just docs`.",
        "",
        "| variable | default | meaning |",
        "| --- | --- | --- |",
    ]
    for name, field in Settings.model_fields.items():
        default = "the user's data folder" if name == "data_dir" else _default(field.get_default())
        meaning = field.description or name.replace("_", " ")
        lines.append(f"| `GIFTRAIL_{name.upper()}` | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def _default(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None or value == "" else str(value)


def docs(
    deed: Annotated[str, typer.Argument(help="write or check")] = "check",
    folder: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Write the generated documents, or check that they are what the code says.

    Example: giftrail docs write
    """
    if deed not in {"write", "check"}:
        raise desk.CommandFailed(f"{deed!r} is neither write nor check")
    stale = [name for name, text in render().items() if not _holds(folder / name, text)]
    if deed == "write":
        for name in stale:
            (folder / name).write_text(render()[name])
    elif stale:
        raise desk.CommandFailed(f"{', '.join(stale)} are not what the code says; run: just docs")
    desk.out.print(f"{'Wrote' if deed == 'write' else 'Stale'}: {', '.join(stale) or 'nothing'}")


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text
