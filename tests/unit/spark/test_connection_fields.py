"""Fields of connections that all cluster managers share."""

from __future__ import annotations

import pytest

from airflow_adaptive.spark.connection_fields import AddressError, read_port, read_texts, read_timeout


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


def test_values_that_are_not_an_object_are_refused_and_not_repeated() -> None:
    with pytest.raises(AddressError, match="^extra secret-env must be an object of names and values$"):
        read_texts("secret-env", "hush")
