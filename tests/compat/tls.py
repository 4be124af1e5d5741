"""One certificate authority and one server certificate for all scenarios over TLS.

They are made outside of every run, once per process; processes that are to be compared share them
through the folder that the environment names, because a key's bytes decide what is on the wire.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import trustme

FOLDER = "FORETOLD_COMPAT_CERTIFICATES"
"""The environment variable with a folder that `save` has filled."""

NAMES = ("api", "localhost", "127.0.0.1")


def save(folder: Path) -> None:
    """Write a new authority and a certificate for the hosts of the scenarios."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    authority.issue_cert(*NAMES).private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")


def contexts(folder: str | None, *alpn: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server and a client of this process use."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    if folder is None:
        authority = trustme.CA()
        authority.configure_trust(client)
        authority.issue_cert(*NAMES).configure_cert(server)
    else:
        client.load_verify_locations(Path(folder, "authority.pem"))
        server.load_cert_chain(Path(folder, "server.pem"))
    if alpn:
        server.set_alpn_protocols(list(alpn))
    return server, client


SERVER, CLIENT = contexts(os.environ.get(FOLDER))
HTTP2, CLIENT_OF_HTTP2 = contexts(os.environ.get(FOLDER), "h2")
"""Of their own: clients write into a context which protocols they speak."""
