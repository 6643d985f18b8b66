"""Operations on the simulated database of Airflow."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time import comms

from tests.lab.fleet.airflow.api_server import ApiServer
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess

READ = comms.GetVariable(key="marker")
WRITE = comms.PutVariable(key="marker", value="1", description=None)


class Client:
    """A process whose threads send one message each."""

    def __init__(self):
        self.kernel = Kernel()
        self.process = SimulatedProcess(self.kernel, "triggerer-1")
        self.api = ApiServer(self.kernel, Entropy(1), lambda text: None)
        self.answers = []

    def send(self, message):
        def run():
            try:
                answer = self.api.send(message)
            except AirflowRuntimeError as error:
                answer = error
            self.answers.append((self.kernel.now, answer))

        self.process.soon(lambda: self.kernel.start_thread(run))


def test_the_operations_of_a_process_are_executed_one_after_the_other():
    client = Client()
    for _ in range(100):
        client.send(WRITE)
    client.kernel.run(until=10)
    assert 100 * 0.012 < client.answers[-1][0] < 100 * 0.03


def test_an_operation_is_repeated_after_an_error():
    client = Client()
    end = client.api.faults.fail()
    client.send(WRITE)
    client.kernel.run(until=1)
    end()
    client.kernel.run(until=10)
    assert [answer for _, answer in client.answers] == [None]
    assert client.api.database.variables == {"marker": "1"}


def test_an_operation_fails_after_some_seconds_of_errors():
    client = Client()
    client.api.faults.fail()
    client.send(READ)
    client.kernel.run(until=60)
    [(failed_at, error)] = client.answers
    assert isinstance(error, AirflowRuntimeError)
    assert 4 < failed_at < 20


def test_a_missing_value_is_no_error():
    client = Client()
    client.send(READ)
    client.kernel.run(until=1)
    [(_, answer)] = client.answers
    assert answer.error.name == "VARIABLE_NOT_FOUND"


def test_each_process_has_its_own_turn():
    client = Client()
    other = Client()
    other.kernel, other.api = client.kernel, client.api
    other.process = SimulatedProcess(client.kernel, "triggerer-2")
    end = client.api.faults.hang(hosts="triggerer-1")
    client.send(READ)
    other.send(READ)
    client.kernel.run(until=10)
    assert (len(client.answers), len(other.answers)) == (0, 1)
    end()
    client.kernel.run(until=11)
    assert len(client.answers) == 1
