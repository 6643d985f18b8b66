"""The masters of a simulated cluster: how they answer requests, and the faults of masters and of the network before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from tests.lab.fakes.coroutines import result_of
from tests.lab.fakes.master import answer, request_kind, standby_answer
from tests.lab.fleet.cluster.cluster import SimulatedCluster
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Action, Kernel

ALL = "*"

TIMEOUT_S = 10.0
"""Timeout of the connection of the cluster, in seconds."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client.

    Attributes:
        client: name of the process that sends the request.
        host: host name of the server.
        kind: state, create, status, kill or log (`fakes.master.request_kind`).
    """

    client: str
    host: str
    kind: str
    method: str
    url: str
    body: bytes
    token: str | None


@dataclass(frozen=True, slots=True)
class Response:
    """The response of a master.

    Attributes:
        is_lost: whether the client does not receive the response, although the request was executed.
    """

    status: int
    body: bytes = b""
    is_lost: bool = False


@dataclass(slots=True, eq=False)
class MasterFault:
    """A fault of the requests that match its patterns.

    Attributes:
        effect: what happens to a request: "disconnect" (it never arrives), "refuse" (no server listens), "hang" (it is executed when the
            fault ends), "fail" (status 500 before its execution), "garbage" (no JSON), "lose" (executed, and no response), "slow" or
            "stale" (the state of the cluster at the beginning of the fault).
        kinds: pattern of the kinds of requests.
        clients: pattern of the names of clients.
        hosts: pattern of the host names of servers.
        delay_s: further latency of a slow request, in seconds.
        state: body of the responses of a stale master, by host.
        held: requests that hang.
    """

    effect: str
    kinds: str = ALL
    clients: str = ALL
    hosts: str = ALL
    delay_s: float = 0.0
    state: dict[str, bytes] = field(default_factory=dict)
    held: list[Action] = field(default_factory=list)

    def affects(self, request: Request) -> bool:
        """Return whether the request matches the patterns."""
        names = ((request.kind, self.kinds), (request.client, self.clients), (request.host, self.hosts))
        return all(fnmatchcase(name, pattern) for name, pattern in names)


class SimulatedMasters:
    """All masters of one cluster. One of them leads.

    Attributes:
        cluster: state of the cluster.
        address: address of the cluster, as a connection contains it.
        token: bearer token that the masters require, None without one.
        leader: host name of the leading master, None while another one takes over.
    """

    def __init__(
        self,
        kernel: Kernel,
        entropy: Entropy,
        record: Callable[[str], None],
        cluster: SimulatedCluster,
        *,
        hosts: tuple[str, ...] = ("master-1",),
        token: str | None = None,
        latency_s: tuple[float, float] = (0.002, 0.1),
    ) -> None:
        """Start the masters; the first one leads.

        Args:
            kernel: the kernel.
            entropy: source of the latencies.
            record: records what happens.
            cluster: state of the cluster.
            hosts: host names.
            token: bearer token that the masters require, None without one.
            latency_s: bounds of the latency of a request, in seconds.
        """
        self.cluster = cluster
        self.token = token
        self.leader: str | None = hosts[0]
        self._kernel = kernel
        self._entropy = entropy
        self._record = record
        self._hosts = hosts
        self._latency_s = latency_s
        self._faults: list[MasterFault] = []
        self._randoms: dict[str, Any] = {}

    @property
    def address(self) -> ClusterAddress:
        """Address of the cluster, as the connection contains it now."""
        masters = tuple(MasterAddress(host=host) for host in self._hosts)
        return ClusterAddress(masters=masters, token=self.token, timeout_s=TIMEOUT_S)

    # ---- faults -----------------------------------------------------------------------------------------------------

    def begin(self, fault: MasterFault) -> Action:
        """Begin a fault. Return the function that ends it."""
        if fault.effect == "stale":
            fault.state = {host: self._execute(_state_request(host)) for host in self._hosts}
        self._faults.append(fault)

        def end() -> None:
            self._faults.remove(fault)
            for arrive in fault.held:
                arrive()

        return end

    def hang(self, *, with_drivers: bool = False) -> Action:
        """Let the masters answer no request, and optionally no driver. Return the function that ends the fault."""
        ends = [self.begin(MasterFault("hang")), *([self.cluster.disconnect_drivers()] if with_drivers else [])]
        return lambda: [end() for end in ends]

    # ---- requests ---------------------------------------------------------------------------------------------------

    def effects(self, request: Request) -> set[str]:
        """Return the effects of the active faults on a request."""
        return {fault.effect for fault in self._faults if fault.affects(request)}

    def send(self, request: Request, respond: Callable[[Response], object]) -> None:
        """Execute a request after some time. The execution does not depend on the client, which gets the response later.

        Args:
            request: the request.
            respond: called with the response.
        """
        half_s = self._latency(request) / 2
        self._kernel.after(half_s, lambda: self._arrive(request, half_s, respond))

    def _arrive(self, request: Request, half_s: float, respond: Callable[[Response], object]) -> None:
        holding = next((fault for fault in self._faults if fault.effect == "hang" and fault.affects(request)), None)
        if holding is not None:
            holding.held.append(lambda: self.send(request, respond))
            return
        response = self._respond(request, self.effects(request))
        self._kernel.after(half_s, lambda: respond(response))

    def _respond(self, request: Request, effects: set[str]) -> Response:
        if "fail" in effects:
            return Response(500)
        if self.token is not None and request.token != self.token and request.host in self._hosts:
            return Response(401)
        if "garbage" in effects:
            return Response(200, b"<html>")
        if "stale" in effects and request.kind == "state":
            fault = next(fault for fault in self._faults if fault.effect == "stale" and fault.affects(request))
            return Response(200, fault.state[request.host])
        return Response(200, self._execute(request), is_lost="lose" in effects)

    def _execute(self, request: Request) -> bytes:
        if request.host in self._hosts and request.host != self.leader:
            return standby_answer(request.url)
        body = result_of(answer(self.cluster, request.method, request.url, request.body))
        if request.kind in {"create", "kill"}:
            self._record(f"{request.host}: {request.kind} of {request.client} executed")
        return body

    def _latency(self, request: Request) -> float:
        if request.client not in self._randoms:
            self._randoms[request.client] = self._entropy.random(f"latency of masters for {request.client}")
        latency_s: float = self._randoms[request.client].uniform(*self._latency_s)
        return latency_s + sum(fault.delay_s for fault in self._faults if fault.affects(request))


def request_of(client: str, method: str, url: str, headers: Mapping[str, str], body: bytes, host: str) -> Request:
    """Return the request with the fields that masters and faults distinguish."""
    authorization = headers.get("Authorization")
    token = None if authorization is None else authorization.removeprefix("Bearer ")
    return Request(client, host, request_kind(url), method, url, body, token)


def _state_request(host: str) -> Request:
    return Request("", host, "state", "GET", f"{MasterAddress(host=host).ui_url}/json/", b"", None)
