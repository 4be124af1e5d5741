"""How a program comes to trust a scripted host.

Programs make their `SSLContext` in many ways, and often before the run: aiohttp and requests do so
when they are imported. So nothing is added to a context. When a client of the world begins TLS with
a scripted host and wants to verify it, OpenSSL is given another list of authorities for this one
connection (`SSL_set_SSL_CTX`): the simulation's own. All else is the program's: whether it verifies
and checks names, protocols, ciphers, ALPN. After the run no context trusts anything new.
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Any

from foretold.kernel import fence
from foretold.services.external.certificate import authority, certificate_of

if TYPE_CHECKING:
    from foretold.world.world import World


def make_trusted(world: World, name: str) -> None:
    """From now on programs of the world trust the certificate of this host."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority())
    world.trusted[name.lower()] = context


def server_context(name: str) -> Any:
    """What the scripted host shows. Made anew for each run: OpenSSL draws randomness for it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    with fence.passage():
        number = os.memfd_create("certificate")
        try:
            os.write(number, certificate_of(name).encode())
            context.load_cert_chain(f"/proc/self/fd/{number}")
        finally:
            os.close(number)
    return context
