"""Why one master gave no answer that counts; they don't leave this package.

ProtocolError            an answer that makes no sense
MasterError
├── NotConnectedError    nothing was sent
├── NoAnswerError        it was sent; nobody knows what became of it
├── ForeignAnswerError   what answered is no Spark master, or not one for us
├── RefusalError         the master answers with an error
└── NotLeadingError      the master answers, but another one leads
"""

from __future__ import annotations


class ProtocolError(ValueError):
    """An answer is not what a Spark master or worker answers; says what is wrong with it."""


class MasterError(Exception):
    """One master gave no answer that counts; another one may."""


class NotConnectedError(MasterError):
    """Nothing was sent: trying another master is safe, whatever it was."""


class NoAnswerError(MasterError):
    """It was sent and may have been carried out, but no answer came."""


class ForeignAnswerError(MasterError):
    """What answered is no Spark master, or not one for us: the address or the token is wrong."""


class RefusalError(MasterError):
    """The master answers that it can't do what was asked; the message is its own."""


class NotLeadingError(MasterError):
    """The master that answered does not lead the cluster now."""
