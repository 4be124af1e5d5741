"""aiosmtplib against a small SMTP server on streams: a protocol of lines, and STARTTLS."""

from __future__ import annotations

import asyncio
from email.message import EmailMessage

import aiosmtplib

import foretold
from tests.compat import tls
from tests.compat.scene import check, for_each, scenario


class Mailbox:
    """Enough of SMTP to take messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, list[bytes], bytes]] = []

    async def main(self) -> None:
        """Serve until the host is stopped."""
        async with await asyncio.start_server(self.session, "0.0.0.0", 25) as server:
            await server.serve_forever()

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, from greeting to QUIT."""
        sender, recipients = b"", list[bytes]()
        writer.write(b"220 api ESMTP\r\n")
        while line := await reader.readline():
            verb, _, rest = line.strip().partition(b" ")
            answer = b"250 ok"
            if verb == b"EHLO":
                answer = b"250-api\r\n250-STARTTLS\r\n250 SIZE 1000000"
            elif verb == b"STARTTLS":
                writer.write(b"220 go ahead\r\n")
                await writer.start_tls(tls.SERVER)
                continue
            elif verb == b"MAIL":
                sender = rest.partition(b":")[2].split()[0]
            elif verb == b"RCPT":
                recipients.append(rest.partition(b":")[2])
            elif verb == b"DATA":
                writer.write(b"354 end with a dot\r\n")
                body = await reader.readuntil(b"\r\n.\r\n")
                self.messages.append((sender, recipients, body))
                sender, recipients = b"", []
            elif verb == b"QUIT":
                writer.write(b"221 bye\r\n")
                break
            writer.write(answer + b"\r\n")
            await writer.drain()
        writer.close()


def letter(number: int) -> EmailMessage:
    """A message of several kilobytes."""
    message = EmailMessage()
    message["From"], message["To"] = "me@main", f"you{number}@api"
    message["Subject"] = f"number {number}"
    message.set_content(f"line of letter {number}\n" * 200)
    return message


async def deliver(world: foretold.World, *, secure: bool) -> None:
    """Three clients send two messages each; all arrive whole, each with its own recipient."""
    mailbox, api = Mailbox(), world.host("api")
    api.start(mailbox.main)
    await api.listening(25)

    async def send(first: int) -> None:
        context = tls.CLIENT if secure else None
        async with aiosmtplib.SMTP(
            hostname="api",
            port=25,
            start_tls=secure,
            tls_context=context,
            local_hostname="main",
        ) as client:
            for number in (first, first + 1):
                errors, _ = await client.send_message(letter(number))
                assert errors == {}

    await asyncio.gather(*(send(first) for first in (0, 2, 4)))
    assert {to[0] for _, to, _ in mailbox.messages} == {b"<you%d@api>" % n for n in range(6)}
    for sender, (to,), body in mailbox.messages:
        assert sender == b"<me@main>"
        assert body.count(b"line of letter %c\r\n" % to[4]) == 200
    await api.stop()


@scenario
async def plain(world: foretold.World) -> None:
    """Messages without TLS."""
    await deliver(world, secure=False)


@scenario
async def starttls(world: foretold.World) -> None:
    """The same after STARTTLS: both sides put TLS on a connection that is in use."""
    await deliver(world, secure=True)


@for_each(plain, starttls)
def test_aiosmtplib(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)
