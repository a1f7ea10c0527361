"""What a browser may ask for. Everything that a ledger says is escaped, or is text."""

from __future__ import annotations

import math
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Literal

import anyio
from fastapi import Body, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException

from roofsmith import api
from roofsmith.api.browsing import Experience
from roofsmith.api.dashboard import Dashboard, style
from roofsmith.domain.dashboard import BrokenEntry, CampaignRow, Chosen, Entry, Filter, Overview
from roofsmith.domain.options import SessionLimits
from roofsmith.errors import RoofsmithError, UnknownNameError, UsageError

TEMPLATES = Path(__file__).parent / "templates"
_FIRST_S = 0.4
"""For reading ledgers before a page is shown; the rest of them come as its first event."""
_POLL_S = 1.0
_BEAT_S = 15.0
"""After so long without news a line is sent, or who went away would never be noticed."""
_DIGITS = 9
"""Of a round's number; Python refuses to read thousands of them."""
_REPORT = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Its own styles stand inside it; sandboxed, it can do nothing at all."""


def _wanted(kernel: str = "", family: str = "", device: str = "", proposer: str = "") -> Filter:
    return Filter(kernel=kernel, family=family, device=device, proposer=proposer)


Wanted = Annotated[Filter, Depends(_wanted)]


def pages(
    shown: Dashboard, experience: Experience, root: str, ended: Callable[[], bool], control: bool
) -> FastAPI:
    """The application: pages below `root`, each as JSON as well where `json` follows.

    Args:
        shown: what there is.
        experience: the database of experiments.
        root: what every address begins with.
        ended: whether streams must end, because the server does.
        control: whether campaigns that run may be stopped, and get other limits.
    """
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    environment.filters["log10"] = math.log10
    environment.globals["control"] = control

    def answer(found: Entry, name: str, request: Request) -> Response:
        status = 503 if isinstance(found, BrokenEntry) else 200
        if request.url.path.endswith("/json"):
            return Response(found.model_dump_json(), status, media_type="application/json")
        template = "unreadable" if isinstance(found, BrokenEntry) else name
        page = environment.get_template(f"{template}.html.j2").render(d=found, root=root)
        return HTMLResponse(page, status)

    def plain(found: str | BrokenEntry) -> Response:
        text = found.reason if isinstance(found, BrokenEntry) else found
        return Response(text.encode("utf-8", "backslashreplace"), media_type="text/plain")

    def refusal(request: Request, status: int, why: str) -> Response:
        if request.method == "POST" or request.url.path.endswith("/json"):
            return JSONResponse({"reason": why}, status)
        page = environment.get_template("refused.html.j2").render(why=why, root=root)
        return HTMLResponse(page, status)

    @app.exception_handler(RoofsmithError)
    def refused(request: Request, error: RoofsmithError) -> Response:
        status = 404 if isinstance(error, UnknownNameError) else 503
        return refusal(request, 409 if type(error) is UsageError else status, error.message)

    @app.exception_handler(RequestValidationError)
    def misread(request: Request, error: RequestValidationError) -> Response:
        wrong = (f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
        return refusal(request, 422, f"this address can't be read: {'; '.join(wrong)}")

    @app.exception_handler(HTTPException)
    def unanswered(request: Request, error: HTTPException) -> Response:
        why = "there is no such page" if error.status_code == 404 else error.detail
        answered = refusal(request, error.status_code, why)
        answered.headers.update(error.headers or {})
        return answered

    @app.get("/")
    @app.get("/json")
    def overview(request: Request, wanted: Wanted, page: int = 1) -> Response:
        within_s = math.inf if request.url.path.endswith("/json") else _FIRST_S
        return answer(shown.overview(page, wanted, within_s), "overview", request)

    @app.get("/compare")
    @app.get("/compare/json")
    def compare(
        request: Request, id_: Annotated[tuple[str, ...], Query(alias="id")] = ()
    ) -> Response:
        if not id_:
            return refusal(request, 422, "nothing is ticked: tick campaigns in the list first")
        return answer(shown.compare(id_), "compare", request)

    @app.get("/experience")
    @app.get("/experience/json")
    def experiments(
        request: Request, show: Chosen = "latest", q: str = "", kernel: str = "", page: int = 1
    ) -> Response:
        return answer(experience.page(show, q, kernel, page), "experience", request)

    @app.get("/experience/{id_}")
    @app.get("/experience/{id_}/json")
    def experiment(request: Request, id_: str) -> Response:
        return answer(experience.experiment(id_), "experiment", request)

    @app.get("/campaign/{id_}")
    @app.get("/campaign/{id_}/json")
    def campaign(request: Request, id_: str, page: int = 1) -> Response:
        return answer(shown.campaign(id_, page), "campaign", request)

    @app.get("/campaign/{id_}/round/{number}")
    @app.get("/campaign/{id_}/round/{number}/json")
    def round_(request: Request, id_: str, number: int) -> Response:
        return answer(shown.round(id_, number), "round", request)

    @app.get("/campaign/{id_}/round/{number}/{to}.diff")
    def difference(id_: str, number: int, to: Literal["parent", "start"]) -> Response:
        return plain(shown.difference(id_, number, whole=to == "start"))

    @app.get("/suite/{id_}")
    @app.get("/suite/{id_}/json")
    def suite(request: Request, id_: str, page: int = 1) -> Response:
        return answer(shown.suite(id_, page), "suite", request)

    @app.get("/campaign/{id_}/file/{number}")
    def file(id_: str, number: int) -> Response:
        return plain(shown.text(id_, number))

    @app.get("/campaign/{id_}/report.html")
    def report(id_: str) -> Response:
        return HTMLResponse(shown.report(id_), headers={"Content-Security-Policy": _REPORT})

    @app.post("/campaign/{id_}/stop")
    def stop(id_: str, now: Annotated[bool, Body(embed=True)] = False) -> JSONResponse:
        return JSONResponse({"said": api.stop(shown.directory(id_), now=now)})

    @app.post("/campaign/{id_}/limit")
    def limit(id_: str, limits: SessionLimits) -> JSONResponse:
        return JSONResponse({"said": api.limit(shown.directory(id_), limits)})

    @app.get("/page.js")
    def script() -> Response:
        return Response((TEMPLATES / "page.js").read_bytes(), media_type="text/javascript")

    @app.get("/page.css")
    def styles() -> Response:
        own = [(TEMPLATES / name).read_text() for name in ("page.css", "many.css")]
        return Response("\n".join([style(), *own]), media_type="text/css")

    @app.get("/events")
    def all_events(wanted: Wanted, page: int = 1) -> Response:
        told: dict[str, CampaignRow] = {}

        def news(_: int) -> Overview:
            found = shown.overview(page, wanted, _POLL_S)
            new = tuple(one for one in found.campaigns if told.get(one.id) != one)
            told.update({one.id: one for one in new})
            return found.model_copy(update={"campaigns": new, "suites": (), "choices": {}})

        return stream(lambda: shown.stamp(), news)

    @app.get("/campaign/{id_}/events")
    def events(request: Request, id_: str, since: int = 1) -> Response:
        last = request.headers.get("last-event-id", "")
        since = int(last) if last.isdecimal() and len(last) <= _DIGITS else since
        return stream(lambda: shown.stamp(id_), lambda known: shown.news(id_, known), since)

    def stream(
        stamp: Callable[[], object], news: Callable[[int], Entry], known: int = 1
    ) -> Response:
        stamp()  # of what isn't there, an answer before the stream begins

        async def told(known: int) -> AsyncIterator[str]:
            seen, at = None, time.monotonic()
            while not ended():
                now = await anyio.to_thread.run_sync(stamp)
                if now != seen:
                    found = await anyio.to_thread.run_sync(news, known)
                    seen = None if getattr(found, "unread", ()) else now  # else there is more
                    at = time.monotonic()
                    known = max([known, *(one.round for one in getattr(found, "rounds", ()))])
                    yield f"id: {known}\ndata: {found.model_dump_json()}\n\n"
                elif time.monotonic() - at > _BEAT_S:
                    at = time.monotonic()
                    yield ": nothing new\n\n"
                await anyio.sleep(_POLL_S)

        return StreamingResponse(told(known), media_type="text/event-stream")

    return app


def _breakable(name: str) -> Markup:
    """A name or a path, to be broken after a separator rather than within a word."""
    return Markup("<wbr>").join(escape(piece) for piece in re.split(r"(?<=[/_.-])", name))
