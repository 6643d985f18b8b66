"""The app that replaces the REST API and the page if they cannot be imported, for example with an untested version of Airflow.

The API server must start in any case, so this module imports nothing of Airflow and of this package only what knows versions.
"""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from airflow_adaptive import __version__
from airflow_adaptive._airflow.internals import installed_airflow, supported_range

KIND: Final = "urn:airflow-adaptive:problem:unavailable"

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
}

PAGE: Final = """<!doctype html>
<html lang="en">
<title>Adaptive jobs</title>
<h1>The page of adaptive jobs is not available</h1>
<p>{detail}</p>
</html>
"""


def create_app(error: Exception) -> Starlette:
    """Create the app. The jobs continue without it: only the page, the REST API and the command line are not available.

    Args:
        error: error of the import. The response contains its class only, because its text can contain paths of the server.
    """
    detail = (
        f"airflow-adaptive {__version__} could not be loaded ({type(error).__name__}). It is tested with {supported_range()}, and this API "
        f"server runs Airflow {installed_airflow()}. Install versions that fit together, then restart the API server. The log of the API "
        "server contains the error. Running jobs continue, and their control loops are not affected."
    )

    def respond(request: Request) -> Response:
        status = HTTPStatus.SERVICE_UNAVAILABLE
        if "/api/" not in request.url.path:
            return HTMLResponse(PAGE.format(detail=escape(detail)), status, HEADERS)
        content = {
            "type": KIND,
            "title": status.phrase,
            "status": status.value,
            "detail": detail,
            "instance": request.url.path,
        }
        return JSONResponse(content, status, HEADERS, "application/problem+json")

    return Starlette(routes=[Route("/{path:path}", respond, methods=["GET", "POST", "PUT", "DELETE"])])
