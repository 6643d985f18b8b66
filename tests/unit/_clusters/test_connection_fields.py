"""Fields of connections are read the same for all cluster managers, and errors do not repeat their values."""

from __future__ import annotations

import pytest

from airflow_adaptive._clusters.connection_fields import (
    AddressError,
    given_fields,
    read_conf,
    read_port,
    read_secret_conf,
    read_texts,
    read_timeout,
)


@pytest.mark.parametrize(("value", "port"), [(1, 1), ("6443", 6443), (65535, 65535)])
def test_port_is_read(value: object, port: int) -> None:
    assert read_port("port", value) == port


@pytest.mark.parametrize("value", [0, 65536, "x", None, 1.5])
def test_port_out_of_range_is_refused_with_its_name(value: object) -> None:
    with pytest.raises(AddressError, match=r"ui-port .* is not a port: use 1\.\.65535"):
        read_port("ui-port", value)


@pytest.mark.parametrize("value", [0, -1, "nan", "inf", "soon", None])
def test_timeout_that_is_not_positive_is_refused(value: object) -> None:
    with pytest.raises(AddressError, match="is not a number of seconds above 0"):
        read_timeout(value)


def test_values_become_texts() -> None:
    assert (read_timeout("2.5"), read_texts("conf", {"spark.a": 1})) == (2.5, {"spark.a": "1"})
    assert read_texts("conf", "spark.a=1\u20282\nspark.b=3") == {"spark.a": "1\u20282", "spark.b": "3"}


def test_values_that_are_not_an_object_are_refused_and_not_repeated() -> None:
    for values in (["hush"], "hush", '{"DB_LOGIN": "hush"}', "A=1\nhush hush=1", "=hush"):
        with pytest.raises(AddressError) as raised:
            read_texts("secret-env", values)
        assert str(raised.value) == "extra secret-env must be an object of names and values, or lines name=value"


def test_lines_of_a_form_are_names_and_values() -> None:
    text = " spark.a = 1\r\n\nspark.b=x=y z \nspark.c=\n"
    assert read_texts("secret-conf", text) == {"spark.a": "1", "spark.b": "x=y z", "spark.c": ""}


def test_empty_fields_of_a_form_are_absent() -> None:
    empty = {"ui-port": None, "verify": "", "namespace": "  "}
    assert given_fields({**empty, "node-autoscaling": False, "max-cores": 0}) == {
        "node-autoscaling": False,
        "max-cores": 0,
    }


def test_properties_are_those_of_both_fields() -> None:
    extra = {"conf": {"spark.a": 1}, "secret-conf": {"spark.b": "hush"}}
    assert read_conf(extra, ()) == {"spark.a": "1", "spark.b": "hush"}
    assert read_secret_conf(extra) == {"spark.b": "hush"}


def test_property_in_both_fields_is_refused() -> None:
    with pytest.raises(AddressError, match="^spark.a is in extra conf and in extra secret-conf: remove it from one"):
        read_conf({"conf": {"spark.a": "1"}, "secret-conf": {"spark.a": "2"}}, ())


def test_secret_property_that_users_of_the_cluster_could_read_is_refused() -> None:
    with pytest.raises(AddressError, match=r"^extra secret-conf: spark.executorEnv.REGION contains a secret") as raised:
        read_conf({"secret-conf": {"spark.executorEnv.REGION": "hush"}}, ("spark.executorEnv.",))
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("name", ["spark.driver.region", "spark.jars.ivy", "spark.submit.a"])
def test_secret_property_on_the_command_line_of_spark_submit_is_refused(name: str) -> None:
    with pytest.raises(AddressError, match=f"^extra secret-conf: spark-submit reads {name} from its command line"):
        read_secret_conf({"secret-conf": {name: "hush"}})
    assert read_secret_conf({"secret-conf": {"spark.driver.password": "hush"}}) == {"spark.driver.password": "hush"}
