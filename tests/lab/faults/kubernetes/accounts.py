"""The account of Airflow on the test cluster: its permissions and its tokens."""

from __future__ import annotations

import time
from typing import Final

import jwt

from tests.support.kubernetes.accounts.manifests import AIRFLOW, AIRFLOW_ACCOUNT, read
from tests.support.kubernetes.control_plane import HOST_NAMES, ControlPlane, Credentials
from tests.support.kubernetes.namespace import Namespace

OBJECTS: Final = (f"Role {AIRFLOW}", f"RoleBinding {AIRFLOW}", f"ServiceAccount {AIRFLOW}")
"""Objects that the account adds to the namespace."""

ISSUER: Final = f"https://{HOST_NAMES[-1]}"

LEEWAY_S: Final = 60
"""The API server accepts a token for this time after its expiry, because clocks differ."""


def airflow_account(team: Namespace) -> Credentials:
    """Create the account of Airflow as documented, and return its credentials."""
    for manifest in read(AIRFLOW_ACCOUNT, team.name):
        team.create(manifest["kind"], manifest["metadata"]["name"], manifest, group=manifest["apiVersion"])
    return Credentials(token=team.token(AIRFLOW))


def expiring_token(control_plane: ControlPlane, team: Namespace, lifetime_s: float) -> Credentials:
    """Return a token of the account that the API server accepts for this time. The shortest token of the API server itself lasts ten minutes."""
    account = team.api.get(team.path("serviceaccounts", AIRFLOW))["metadata"]
    issued = time.time() - 2 * LEEWAY_S
    claims = {
        "iss": ISSUER,
        "aud": [ISSUER],
        "sub": f"system:serviceaccount:{team.name}:{AIRFLOW}",
        "iat": int(issued),
        "nbf": int(issued),
        "exp": int(time.time() + lifetime_s - LEEWAY_S),
        "kubernetes.io": {"namespace": team.name, "serviceaccount": {"name": AIRFLOW, "uid": account["uid"]}},
    }
    key = control_plane.certificates.service_account_key.read_text()
    return Credentials(token=jwt.encode(claims, key, algorithm="RS256"))
