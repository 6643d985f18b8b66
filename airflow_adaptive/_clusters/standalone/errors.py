"""Errors of a request to one master. The errors do not leave this package.

ProtocolError            the response is invalid
MasterError
├── NotConnectedError    the request was not sent
├── NoAnswerError        the request was sent; its outcome is unknown
├── ForeignAnswerError   the server is not a Spark master, or does not accept the token
├── RefusalError         the master responds with an error
└── NotLeadingError      the master is not the leader
"""

from __future__ import annotations


class ProtocolError(ValueError):
    """The response is not that of a Spark master or worker; the message names the problem."""


class MasterError(Exception):
    """A request to one master failed; another master may respond."""


class NotConnectedError(MasterError):
    """The request was not sent, so it is safe to send any request to another master."""


class NoAnswerError(MasterError):
    """The request was sent and may have been executed, but no response arrived."""


class ForeignAnswerError(MasterError):
    """The server is not a Spark master, or does not accept the token: the address or the token is wrong."""


class RefusalError(MasterError):
    """The master cannot fulfill the request; the message is the message of the master."""


class NotLeadingError(MasterError):
    """The master that responded is not the leader of the cluster."""
