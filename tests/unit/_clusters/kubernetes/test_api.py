"""Requests to an API server that refuses, fails, hangs or is gone."""

from __future__ import annotations

import pytest
from aiohttp import web

from airflow_adaptive._clusters.kubernetes.api import KubernetesApi, NotSentError, RefusedError, UnknownOutcomeError
from tests.support.kubernetes.client.fake_api import FakeApi, failure

PODS = "/api/v1/namespaces/team-a/pods"

pytestmark = pytest.mark.asyncio


async def test_an_object_is_plain_data(server: FakeApi) -> None:
    api = KubernetesApi(server, 10)
    created = await api.request("POST", PODS, query={"fieldValidation": "Strict"}, body={"metadata": {"name": "a"}})
    assert created["metadata"]["uid"] == "uid-1"
    assert await api.request("GET", f"{PODS}/a") == created


@pytest.mark.parametrize(
    ("response", "properties"),
    [
        (failure(404, "gone", "NotFound"), ["is_missing"]),
        (failure(409, "exists", "AlreadyExists"), ["is_duplicate"]),
        (failure(409, "changed", "Conflict"), ["is_conflict"]),
        (failure(410, "too old", "Expired"), ["is_expired"]),
        (failure(403, "no", "Forbidden"), []),
    ],
)
async def test_a_refusal_has_a_kind(server: FakeApi, response: web.Response, properties: list[str]) -> None:
    server.answer = lambda _: response
    with pytest.raises(RefusedError) as caught:
        await KubernetesApi(server, 10).request("GET", PODS)
    kinds = ("is_missing", "is_duplicate", "is_conflict", "is_expired")
    assert [kind for kind in kinds if getattr(caught.value, kind)] == properties


@pytest.mark.parametrize(
    "response", [failure(500, "etcdserver: timeout"), web.Response(status=503, text="<p>proxy</p>")]
)
async def test_the_outcome_of_a_failed_request_is_unknown(server: FakeApi, response: web.Response) -> None:
    server.answer = lambda _: response
    with pytest.raises(UnknownOutcomeError, match="the API server failed: 50"):
        await KubernetesApi(server, 10).request("POST", PODS, body={})


async def test_a_response_of_another_server_is_no_object(server: FakeApi) -> None:
    server.answer = lambda _: web.Response(text="<p>portal</p>")
    with pytest.raises(UnknownOutcomeError, match="the response is not JSON: <p>portal</p>"):
        await KubernetesApi(server, 10).request("GET", PODS)


async def test_a_server_that_does_not_answer_is_noticed(server: FakeApi) -> None:
    server.hangs = True
    with pytest.raises(UnknownOutcomeError, match="did not answer in time"):
        await KubernetesApi(server, 0.05).request("POST", PODS, body={})


async def test_a_server_that_is_gone_received_nothing() -> None:
    async with FakeApi().running() as stopped:
        pass
    with pytest.raises(NotSentError, match="the API server cannot be reached"):
        await KubernetesApi(stopped, 10).request("POST", PODS, body={})
    await stopped.close()


async def test_refused_credentials_are_renewed_once(server: FakeApi) -> None:
    def accepts_new_token(request: web.Request) -> web.Response | None:
        return None if request.headers["Authorization"] == "Bearer token-1" else failure(401, "Unauthorized")

    server.answer = accepts_new_token
    assert (await KubernetesApi(server, 10).request("GET", PODS))["items"] == []
    assert server.renewals == 1


async def test_credentials_that_stay_refused_are_no_refusal_of_the_request(server: FakeApi) -> None:
    server.answer = lambda _: failure(401, "Unauthorized", "Unauthorized")
    with pytest.raises(NotSentError, match="refuses the credentials: 401 Unauthorized"):
        await KubernetesApi(server, 10).request("POST", PODS, body={})
    assert server.renewals == 1


async def test_a_stream_that_hangs_is_noticed(server: FakeApi) -> None:
    async def read() -> None:
        async with KubernetesApi(server, 10).stream(PODS, {"watch": "true"}, 0.05) as lines:
            async for _ in lines:
                pass

    with pytest.raises(UnknownOutcomeError, match="did not answer in time"):
        await read()
