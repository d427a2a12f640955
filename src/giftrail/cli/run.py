"""The commands that run the service: up, demo, serve, work, migrate, keys."""

import asyncio
import contextlib
import os
import shlex
import socket
import tempfile
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from giftrail import app, running
from giftrail import keys as installation_keys
from giftrail.cli import desk, documents, stopping
from giftrail.db import migrate as migrations
from giftrail.demo import furnish, tale
from giftrail.kit import log
from giftrail.settings import Settings

Host = Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")]
# The demo talks to people; its small stock is meant.
_QUIET = {"log_level": "ERROR", "access_log": "off", "low_stock_codes": 0}
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.", show_default="8080")]


def add_to(main_app: typer.Typer) -> None:
    """Put the commands on the main one."""
    for command in (up, demo_, serve, work, migrate, keys):
        main_app.command(command.__name__.rstrip("_"))(command)
    main_app.command("docs", hidden=True)(documents.docs)


def up(host: Host = None, port: Port = None, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Run everything on this machine: database, API and workers, on a data directory that lasts.

    Example: giftrail up --port 8080 --data-dir ~/giftrail
    """
    with stopping.stopped_by_signals(), desk.database(desk.load_settings(data_dir, host=host, port=port)) as found:
        settings = installation_keys.with_keys(found)
        log.configure(level=settings.log_level)
        listening = _listen(settings)
        base_url = _base_url(settings, listening.getsockname()[1])

        async def tell(_: uvicorn.Server) -> None:
            members = {"baseUrl": base_url, "dataDir": str(settings.data_dir)}
            here = "" if data_dir is None else f" --data-dir {shlex.quote(str(settings.data_dir))}"
            desk.tell(
                f"Giftrail is up at {base_url} (interactive API page: {base_url}/docs), data in {settings.data_dir}.\n"
                "The first partner, from another terminal:\n"
                f'  giftrail partner create "First Partner"{here}\n'
                f'  giftrail credential create "First Partner"{here}\n'
                f"  giftrail brand import brands.csv{here}\n"
                f'  giftrail brand enable "First Partner" --all{here}\n'
                f'  giftrail wallet top-up "First Partner" 10000{here}\n'
                "Ctrl-C stops it.",
                members,
                as_json=as_json,
            )

        stopping.run_server(running.serve_here(settings, listening, beside=tell))


def demo_(
    host: Host = None,
    port: Port = None,
    once: Annotated[bool, typer.Option("--once", help="Stop after the tale.")] = False,
    as_json: desk.AsJson = False,
) -> None:
    """Play a partner's day through real HTTP on a throwaway database, then stay up to be tried.

    Example: giftrail demo --once
    """
    with stopping.stopped_by_signals(), tempfile.TemporaryDirectory(prefix="giftrail-demo-") as folder:
        settings = desk.load_settings(Path(folder), host=host, port=port, environment="staging", **_QUIET).model_copy(
            update={"database_url": None}
        )
        if not as_json:
            desk.out.print(f"Starting PostgreSQL, the API and the workers in {folder} …")
        with desk.database(settings) as found:
            settings = installation_keys.with_keys(found)
            log.configure(level=settings.log_level)
            listening = _listen(settings)
            base_url = _base_url(settings, listening.getsockname()[1])
            messages = Path(folder) / "messages"
            settings = settings.model_copy(update={"delivery_folder": messages, "public_url": base_url})
            partners = stopping.run(
                furnish.furnish(app.database_url(settings), keys=installation_keys.code_keys(settings), now=app.now())
            )

            async def play(server: uvicorn.Server) -> None:
                if as_json:
                    desk.print_json(
                        {
                            "baseUrl": base_url,
                            "dataDir": folder,
                            "partners": [partner.members() for partner in partners],
                        }
                    )
                else:
                    await tale.tell(base_url, partners, messages=messages, console=desk.out)
                if once:
                    server.should_exit = True
                elif not as_json:
                    tale.introduce(base_url, partners, console=desk.out)

            stopping.run_server(running.serve_here(settings, listening, beside=play))


def serve(
    processes: Annotated[int | None, typer.Option(min=1, help="API processes.", show_default="1")] = None,
    host: Host = None,
    port: Port = None,
    data_dir: desk.DataDir = None,
) -> None:
    """Serve the API; the database must be current (giftrail migrate). Put TLS in front of it.

    Example: GIFTRAIL_DATABASE_URL=postgresql://… giftrail serve --processes 4 --host 0.0.0.0
    """
    with stopping.stopped_by_signals(), contextlib.ExitStack() as stack:
        settings = desk.load_settings(data_dir, host=host, port=port, processes=processes)
        if settings.database_url is None:
            settings = stack.enter_context(desk.database(settings))
        settings = installation_keys.with_keys(settings)
        log.configure(level=settings.log_level)
        desk.check_schema(settings)
        if settings.processes > 1:
            figures = stack.enter_context(tempfile.TemporaryDirectory(prefix="giftrail-metrics-"))
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = figures
        # The server's processes read their settings from the environment.
        os.environ |= {
            "GIFTRAIL_DATABASE_URL": app.database_url(settings),
            "GIFTRAIL_DATA_DIR": str(settings.data_dir),
            "GIFTRAIL_PROCESSES": str(settings.processes),
        }
        running.allow_many_connections()  # its processes inherit it
        running.serve_processes(settings)


def work(data_dir: desk.DataDir = None) -> None:
    """Run the workers: orders that take time, reversals, the periodic audit, the stock alarm. Run as many as you like.

    Example: GIFTRAIL_DATABASE_URL=postgresql://… giftrail work
    """
    with stopping.stopped_by_signals(), desk.database(desk.load_settings(data_dir)) as found:
        settings = installation_keys.with_keys(found)
        log.configure(level=settings.log_level)
        desk.check_schema(settings)
        stopping.run_server(running.work(settings))


def migrate(data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Bring the database to the schema of this program; safe to run twice and from two machines at once.

    Example: GIFTRAIL_DATABASE_URL=postgresql://… giftrail migrate
    """
    settings = desk.load_settings(data_dir)
    if settings.database_url is None:
        raise desk.CommandFailed("GIFTRAIL_DATABASE_URL is not set; the embedded database migrates itself")
    url = app.database_url(settings)
    applied = asyncio.run(
        migrations.migrate(url, tell=lambda one: desk.err.print(f"applying {one.number:04} {one.name}"))
    )
    sentence = f"Applied {len(applied)} migrations." if applied else "The database is current."
    desk.tell(sentence, {"applied": [migration.number for migration in applied]}, as_json=as_json)


def keys(as_json: desk.AsJson = False) -> None:
    """Draw new random keys, to be set once and kept safe; without them no code can be read again.

    Example: giftrail keys >> /etc/giftrail.env
    """
    drawn = {f"GIFTRAIL_{name.upper()}": value for name, value in installation_keys.draw_keys().items()}
    desk.tell("\n".join(f"{name}={value}" for name, value in drawn.items()), drawn, as_json=as_json)


def _listen(settings: Settings) -> socket.socket:
    try:
        return running.listen(settings)
    except OSError as error:
        raise desk.CommandFailed(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; --port 0 picks a free one"
        ) from None


def _base_url(settings: Settings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{port}"
