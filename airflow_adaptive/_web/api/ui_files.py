"""Serves the page of adaptive jobs at `ui/` of the app: the built files (`make ui`) with their security headers.

The page contains no data, so it requires no login. All of its addresses are relative to a relative `<base>`, so the page works below
any prefix of Airflow or of a proxy.
"""

from __future__ import annotations

import mimetypes
import secrets
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from airflow_adaptive._web.data.errors import not_found

DIST: Final = Path(__file__).parents[1] / "ui" / "dist"

PATH: Final = "/ui/"

ASSETS: Final = "assets/"
"""Folder of the files whose names contain a hash of their content."""

BASE: Final = '<base href="./" />'
NONCE: Final = 'nonce=""'
"""Placeholders in the page."""

TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
"""Media types by suffix, because the registry of Windows has wrong types for some suffixes."""

IMMUTABLE: Final = "public, max-age=31536000, immutable"
REVALIDATE: Final = "no-cache"

NOT_BUILT: Final = """<!doctype html>
<html lang="en">
<title>Adaptive jobs</title>
<style nonce="{nonce}">body {{ font: 16px/1.5 system-ui, sans-serif; margin: 4rem auto; max-width: 40rem; padding: 0 1rem }}</style>
<h1>The page has not been built</h1>
<p>This installation of airflow-adaptive comes from its sources. Run <code>make ui</code> (or
<code>python airflow_adaptive/_web/ui/build.py</code>) in the sources to build the page of adaptive jobs, then reload this page. The REST
API works without the page.</p>
</html>
"""


def mount(app: FastAPI, dist: Path = DIST) -> None:
    """Serve the page at `ui/` of an app. Each request reads the folder `dist`, so the page can be built later."""

    async def redirect(request: Request) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"{PATH.strip('/')}/{query}", HTTPStatus.PERMANENT_REDIRECT)

    async def page(request: Request, path: str) -> Response:
        if path.startswith(ASSETS):
            return _asset(dist, path)
        return _index(dist / "index.html", _depth(request, path))

    methods = ["GET", "HEAD"]
    app.add_api_route(PATH.rstrip("/"), redirect, methods=methods, include_in_schema=False)
    app.add_api_route(f"{PATH}{{path:path}}", page, methods=methods, include_in_schema=False)


def _asset(dist: Path, path: str) -> Response:
    """Return a file of the page. Raises `RequestRefusedError`: the file does not exist, or is outside the folder of the page (404)."""
    file = _inside(dist / ASSETS, dist / path)
    if file is None:
        raise not_found("The page has no such file. Reload the page.")
    media_type = TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return FileResponse(file, media_type=media_type, headers={"Cache-Control": IMMUTABLE})


def _inside(folder: Path, path: Path) -> Path | None:
    """Return the file at a path, None if the file does not exist in the folder."""
    try:
        file = path.resolve()
        return file if file.is_relative_to(folder.resolve()) and file.is_file() else None
    except (OSError, ValueError):  # the path is too long or invalid
        return None


def _index(index: Path, depth: int) -> Response:
    """Return the page itself, for every address that is not a file. The router of the page interprets the address."""
    nonce = secrets.token_urlsafe(16)
    headers = {"Cache-Control": REVALIDATE, **_protection(nonce)}
    if not index.is_file():
        return HTMLResponse(NOT_BUILT.format(nonce=nonce), HTTPStatus.SERVICE_UNAVAILABLE, headers)
    html = index.read_text(encoding="utf-8")
    html = html.replace(BASE, f'<base href="{"../" * depth or "./"}" />', 1).replace(NONCE, f'nonce="{nonce}"', 1)
    return HTMLResponse(html, headers=headers)


def _depth(request: Request, path: str) -> int:
    """Return the number of folders between the page and an address. In the raw path, slashes in names are escaped."""
    raw: bytes | None = request.scope.get("raw_path")
    if raw is None:
        return path.count("/")
    prefix = str(request.scope["path"]).removesuffix(path)
    return max(raw.decode("latin-1").partition("?")[0].count("/") - prefix.count("/"), 0)


def _protection(nonce: str) -> dict[str, str]:
    """Return the headers that restrict the page to files and frames of this server."""
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
