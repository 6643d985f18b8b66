"""A mail server that keeps what it is sent."""

from __future__ import annotations

import email
import email.policy
import socketserver

from tests.support.servers.background_server import BackgroundServer

ANSWERS = {"DATA": "354 go on", "QUIT": "221 bye"}
"""To the commands of SMTP (RFC 5321); all others are fine."""


class SmtpServer(BackgroundServer, socketserver.ThreadingTCPServer):
    """Takes mail for every address, until its `with` block ends.

    Attributes:
        subjects: of all mails, in order.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(_Conversation)
        self.subjects: list[str] = []


class _Conversation(socketserver.StreamRequestHandler):
    server: SmtpServer

    def handle(self) -> None:
        self._say("220 hello")
        while line := self.rfile.readline().decode().strip():
            command = line.split()[0].upper()
            self._say(ANSWERS.get(command, "250 fine"))
            if command == "DATA":
                self._take_mail()
            if command == "QUIT":
                return

    def _take_mail(self) -> None:
        lines = iter(self.rfile.readline, b".\r\n")
        mail = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
        self.server.subjects.append(str(mail["subject"]))
        self._say("250 taken")

    def _say(self, answer: str) -> None:
        self.wfile.write(f"{answer}\r\n".encode())
