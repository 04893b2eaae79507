"""The listening sheet in the browser: a page, its audio, and one address that takes votes. It never opens the key.

    GET  /                        the page; its script and style beside it
    GET  /api/sheet               where the listener is: trials, votes given, the trial that waits
    GET  /audio/<trial>/<side>    WAV
    POST /api/votes               one vote (evaluate.listening.votes); answers with where the listener is then

All state is in the sheet's files, so a reload, a restart or a kill goes on where the last vote was taken.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.errors import BadInput, LegatoError, MissingExtra
from legato.evaluate import lines
from legato.evaluate.listening import votes
from legato.evaluate.listening.sheet import SIDES, Sheet

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

STATIC = Path(__file__).parent / "static"
LARGEST_VOTE = 10_000  # bytes


def where(sheet: Sheet) -> dict[str, Any]:
    """Where the listener is, as the page reads it."""
    given = votes.read(sheet)
    waits = votes.waiting(sheet, given)
    trial = None
    if waits is not None:
        index, next_trial = waits
        trial = {
            "id": next_trial.id,
            "number": index + 1,
            "seconds": next_trial.seconds,
            "least_s": next_trial.least_s,
            "audio": {side: f"/audio/{next_trial.id}/{side}" for side in SIDES},
        }
    return {
        "trials": len(sheet.trials),
        "voted": len(given.by_trial),
        "trial": trial,
        "tags": list(votes.TAGS),
        "key_sha256": sheet.key_sha256,
        "report": f"legato listening report {sheet.folder}",
    }


def app(sheet: Sheet) -> ASGIApp:
    """The sheet as a web application.

    Raises:
        MissingExtra: starlette is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import FileResponse, JSONResponse
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles
    except ModuleNotFoundError as error:
        raise MissingExtra("starlette", "serve", "the listening page") from error
    known = {trial.id for trial in sheet.trials}

    def page(request: Request) -> Response:
        return FileResponse(STATIC / "listening.html")

    def state(request: Request) -> Response:
        return JSONResponse(where(sheet))

    def sound(request: Request) -> Response:
        trial, side = request.path_params["trial"], request.path_params["side"]
        if trial not in known or side not in SIDES:
            return JSONResponse({"error": f"the sheet has no recording {trial}/{side}."}, 404)
        return FileResponse(sheet.audio(trial, side), media_type="audio/wav")

    async def vote(request: Request) -> Response:
        # Only a page of ours can send JSON here: another site's form cannot, and its script is stopped by the browser.
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return JSONResponse({"error": "a vote is sent as application/json."}, 415)
        if int(request.headers.get("content-length") or LARGEST_VOTE + 1) > LARGEST_VOTE:
            return JSONResponse({"error": f"a vote has at most {LARGEST_VOTE:,} bytes."}, 413)
        try:
            value = lines.parse(await request.body(), "the vote")
        except BadInput as error:
            return JSONResponse({"error": str(error)}, 400)
        with suppress(votes.TakenVote):  # the answer to the first sending was lost: go on as if it had come
            await run_in_threadpool(votes.cast, sheet, value)
        return JSONResponse(await run_in_threadpool(where, sheet))

    def refuse(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 400 if isinstance(error, BadInput) else 409)

    def full(request: Request, error: Exception) -> Response:
        assert isinstance(error, OSError)
        return JSONResponse(
            {"error": f"the vote was not saved: {error.strerror}; mend that and press Enter again."}, 507
        )

    return Starlette(
        routes=[
            Route("/", page),
            Route("/api/sheet", state),
            Route("/api/votes", vote, methods=["POST"]),
            Route("/audio/{trial}/{side}", sound),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        exception_handlers={LegatoError: refuse, OSError: full},
    )
