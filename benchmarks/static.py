"""The service's HTTP server with nothing behind it: a bare ASGI callable that answers the same bytes to everyone.

    python benchmarks/static.py PLAN_FILE

The plan is JSON: data_dir, port, and by path (with its query) the headers and the file of the body. Serves until it is
stopped.
"""

import json
import sys
from pathlib import Path
from typing import Any

import uvicorn

sys.path.insert(0, str(Path(__file__).parents[1]))

from giftrail import running
from giftrail.settings import Settings


class Still:
    """The application."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = {
            (path.partition("?")[0], path.partition("?")[2].encode()): (
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(name.encode(), value.encode()) for name, value in one["headers"]],
                },
                {"type": "http.response.body", "body": Path(one["file"]).read_bytes()},
            )
            for path, one in answers.items()
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer what is asked."""
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        start, body = self._answers[scope["path"], scope["query_string"]]
        await send(start)
        await send(body)


def main() -> None:
    """Serve."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    settings = Settings(data_dir=plan["data_dir"], port=plan["port"])
    uvicorn.run(Still(plan["answers"]), **running._options(settings))  # noqa: SLF001 — exactly the service's server


if __name__ == "__main__":
    main()
