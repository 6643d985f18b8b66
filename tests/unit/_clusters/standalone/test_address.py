"""From the fields of a connection to the address of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress, parse_address


def parse(host: str | None = "spark://h1", port: int | None = None, **extra: Any) -> ClusterAddress:
    return parse_address(host, port, None, {name.replace("_", "-"): value for name, value in extra.items()})


@pytest.mark.parametrize(
    ("host", "port", "master_url"),
    [
        ("spark://h1", None, "spark://h1:7077"),
        ("spark://h1", 7078, "spark://h1:7078"),
        ("spark://h1:7079", 7078, "spark://h1:7079"),
        ("h1", 7078, "spark://h1:7078"),
        ("spark://h1:7077,h2:7078", None, "spark://h1:7077,h2:7078"),
        (" spark://h1, h2 ", 7078, "spark://h1:7078,h2:7078"),
        ("spark://[::1]:7078", None, "spark://[::1]:7078"),
        ("localhost", None, "spark://localhost:7077"),
        ("yarn-edge", None, "spark://yarn-edge:7077"),
    ],
)
def test_host_and_port_give_the_masters(host: str, port: int | None, master_url: str) -> None:
    assert parse(host, port).master_url == master_url


@pytest.mark.parametrize("host", ["local[*]", "local", "yarn", "k8s://https://h1:443", "mesos://h1:5050", "yarn://h1"])
def test_other_managers_are_refused(host: str) -> None:
    with pytest.raises(
        AddressError, match="is not supported: use spark://host:port for a standalone cluster, or k8s://"
    ):
        parse(host)


@pytest.mark.parametrize("host", ["", None, "spark://", "spark://,", "http://h1:8080"])
def test_host_without_a_master_is_refused(host: str | None) -> None:
    with pytest.raises(AddressError, match="names no master"):
        parse(host)


@pytest.mark.parametrize(
    "host", ["spark://h1/path", "spark://h1?x=1", "spark://h1:seven", "spark://h1:70770", "spark://:7077"]
)
def test_host_with_anything_else_is_refused(host: str) -> None:
    with pytest.raises(AddressError, match="host:port"):
        parse(host)


def test_credentials_in_the_host_are_refused_and_not_repeated() -> None:
    with pytest.raises(AddressError) as caught:
        parse("spark://me:hush@h1:7077")
    assert "hush" not in str(caught.value)


def test_extras_give_the_servers_of_each_master() -> None:
    address = parse("spark://h1,h2", ui_port="8480", rest_port=6067, ui_scheme="https", rest_scheme="https")
    assert [master.ui_url for master in address.masters] == ["https://h1:8480", "https://h2:8480"]
    assert [master.rest_url for master in address.masters] == ["https://h1:6067", "https://h2:6067"]


def test_servers_have_sparks_default_ports() -> None:
    (master,) = parse().masters
    assert (master.ui_url, master.rest_url) == ("http://h1:8080", "http://h1:6066")


def test_ipv6_host_is_bracketed_in_urls() -> None:
    assert MasterAddress(host="::1").ui_url == "http://[::1]:8080"


@pytest.mark.parametrize(
    ("extra", "value"),
    [
        ("ui-port", 0),
        ("rest-port", 65536),
        ("ui-scheme", "ftp"),
        ("timeout", "soon"),
        ("verify", 1),
        ("conf", "spark.x"),
        ("secret-env", "X"),
    ],
)
def test_extra_that_makes_no_sense_is_named(extra: str, value: object) -> None:
    with pytest.raises(AddressError, match=extra):
        parse_address("spark://h1", None, None, {extra: value})


@pytest.mark.parametrize(
    ("value", "verify"),
    [(True, True), (False, False), ("true", True), ("False", False), ("/etc/ca.pem", "/etc/ca.pem")],
)
def test_verify_is_a_flag_or_a_file(value: object, verify: object) -> None:
    assert parse(verify=value).verify == verify


def test_extras_of_others_are_ignored() -> None:
    assert parse(queue="root.default", deploy_mode="cluster") == parse()


def test_token_is_the_password_and_never_displayed() -> None:
    address = parse_address("spark://h1", None, "hush", {})
    assert address.token == "hush"
    assert "hush" not in repr(address)


def test_secret_properties_of_every_driver_are_never_displayed() -> None:
    extra = {"conf": {"spark.a": "open"}, "secret-conf": {"spark.region": "hush"}}
    address = parse_address("spark://h1", None, None, extra)
    assert address.conf == {"spark.a": "open", "spark.region": "hush"}
    assert address.secret_names == {"spark.region"}
    assert address.secrets == ("hush",)
    assert "hush" not in repr(address)


def test_fields_without_a_value_are_absent() -> None:
    names = ("ui-port", "rest-port", "ui-scheme", "rest-scheme", "timeout", "verify", "conf", "secret-conf")
    for empty in (None, "", " "):
        assert parse_address("spark://h1", None, "", dict.fromkeys(names, empty)) == parse()


def test_secret_variables_of_every_driver_are_never_displayed() -> None:
    address = parse_address("spark://h1", None, None, {"secret-env": {"DB_LOGIN": "hush", "DB_PORT": 1}})
    assert address.secret_env == {"DB_LOGIN": "hush", "DB_PORT": "1"}
    assert "hush" in address.secrets
    assert "hush" not in repr(address)


@pytest.mark.parametrize(
    ("given", "hosts"),
    [("", ()), ("worker-1", ("worker-1",)), (" W1, *.example.com,", ("w1", "*.example.com")), (["w1"], ("w1",))],
)
def test_hosts_that_receive_the_token_are_read(given: Any, hosts: tuple[str, ...]) -> None:
    assert parse(token_hosts=given).token_hosts == hosts


@pytest.mark.parametrize("given", ["http://w1", {"w1": True}, [1], 8])
def test_hosts_that_are_no_names_are_refused(given: Any) -> None:
    with pytest.raises(AddressError, match="token-hosts .* must be host names"):
        parse(token_hosts=given)


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_secret_on_a_command_line_is_refused(role: str) -> None:
    name = f"spark.{role}.extraJavaOptions"
    assert parse(conf={name: "-Dtoken.file=/a"}).conf == {name: "-Dtoken.file=/a"}
    with pytest.raises(AddressError, match=f"{name} contains a secret") as refusal:
        parse(conf={name: "-Djavax.net.ssl.trustStorePassword=hush"})
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize("name", ["\x00", "\ud800"])
def test_verify_that_no_file_can_have_as_its_name_is_refused(name: str) -> None:
    with pytest.raises(AddressError, match="verify .* is not the path of a file of authorities"):
        parse(verify=name).tls()
