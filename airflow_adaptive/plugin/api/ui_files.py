"""The page of adaptive jobs, at `ui/` of the app: files that were built from `ui/` (`make ui`), and the headers that they need.

It holds no data: whoever is not logged in gets the page, and from the API nothing. All addresses in it are relative to a `<base>`
that is relative itself, so it works below any prefix that Airflow or a proxy has.
"""

from __future__ import annotations

import mimetypes
import secrets
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from airflow_adaptive.plugin.api.problems import not_found

DIST: Final = Path(__file__).parents[1] / "ui" / "dist"

PATH: Final = "/ui/"

ASSETS: Final = "assets/"
"""Files whose names change with what is in them."""

BASE: Final = '<base href="./" />'
NONCE: Final = 'nonce=""'
"""What the page has where something is filled in."""

TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
"""Told here: what the machine's own list has for some of them is wrong on Windows."""

FOR_EVER: Final = "public, max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"

NOT_BUILT: Final = """<!doctype html>
<html lang="en">
<title>Adaptive jobs</title>
<style nonce="{nonce}">body {{ font: 16px/1.5 system-ui, sans-serif; margin: 4rem auto; max-width: 40rem; padding: 0 1rem }}</style>
<h1>The page was not built</h1>
<p>This installation of airflow-adaptive comes from its sources, where the page of adaptive jobs has to be built once: run
<code>make ui</code> there (or <code>python airflow_adaptive/plugin/ui/build.py</code>), then load this page again. The REST API does not need it.</p>
</html>
"""


def mount(app: FastAPI, dist: Path = DIST) -> None:
    """Serve the page at `ui/` of an app.

    Args:
        app: that gets it.
        dist: where it was built; looked at with each request, so a page that is built later is found.
    """

    async def entrance(request: Request) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"{PATH.strip('/')}/{query}", HTTPStatus.PERMANENT_REDIRECT)

    async def page(request: Request, path: str) -> Response:
        if path.startswith(ASSETS):
            return _asset(dist, path)
        return _index(dist / "index.html", _depth(request, path))

    methods = ["GET", "HEAD"]
    app.add_api_route(PATH.rstrip("/"), entrance, methods=methods, include_in_schema=False)
    app.add_api_route(f"{PATH}{{path:path}}", page, methods=methods, include_in_schema=False)


def _asset(dist: Path, path: str) -> Response:
    """A file of the page. Raises `ProblemError` (404) if there is none, whatever the path tries to reach."""
    file = _inside(dist / ASSETS, dist / path)
    if file is None:
        raise not_found("There is no such file of the page: load the page again.")
    media_type = TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return FileResponse(file, media_type=media_type, headers={"Cache-Control": FOR_EVER})


def _inside(folder: Path, path: Path) -> Path | None:
    """The file at a path if it lies in the folder, None otherwise."""
    try:
        file = path.resolve()
        return file if file.is_relative_to(folder.resolve()) and file.is_file() else None
    except (OSError, ValueError):  # too long, or no path at all
        return None


def _index(index: Path, depth: int) -> Response:
    """The page itself, for every address that is no file: what it shows there is its own affair."""
    nonce = secrets.token_urlsafe(16)
    headers = {"Cache-Control": ASK_AGAIN, **_protection(nonce)}
    if not index.is_file():
        return HTMLResponse(NOT_BUILT.format(nonce=nonce), HTTPStatus.SERVICE_UNAVAILABLE, headers)
    html = index.read_text(encoding="utf-8")
    html = html.replace(BASE, f'<base href="{"../" * depth or "./"}" />', 1).replace(NONCE, f'nonce="{nonce}"', 1)
    return HTMLResponse(html, headers=headers)


def _depth(request: Request, path: str) -> int:
    """How many folders an address lies below the page's; slashes of names are escaped in the raw path."""
    raw: bytes | None = request.scope.get("raw_path")
    if raw is None:
        return path.count("/")
    before = str(request.scope["path"]).removesuffix(path)
    return max(raw.decode("latin-1").partition("?")[0].count("/") - before.count("/"), 0)


def _protection(nonce: str) -> dict[str, str]:
    """Headers that let the page load files of this server only, and show it in frames of this server only."""
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": f"'self' 'nonce-{nonce}'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'self'",
        "form-action": "'none'",
        "frame-ancestors": "'self'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Referrer-Policy": "same-origin",
        "X-Frame-Options": "SAMEORIGIN",
    }
