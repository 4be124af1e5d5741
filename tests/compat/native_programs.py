"""Small programs, each of which uses one library with C or Rust code as people do.

Child processes run them: `ANSWERED` repeat with the tape, `LOUD` fail with `EscapedWorld`. Each
returns what a test can compare. Its name is that of its library, `__` and what it does.
"""

from __future__ import annotations

import asyncio
import datetime
import io
from collections.abc import Callable
from typing import Any

Program = Callable[[], Any]
PORT = 9


def pydantic_core__now() -> Any:
    """Dates in the future are judged by the world's clock."""
    import pydantic

    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    future = pydantic.TypeAdapter(pydantic.FutureDatetime).validate_python(tomorrow)
    past = pydantic.TypeAdapter(pydantic.PastDatetime).validate_python("2025-12-31T23:59:59Z")
    return str(future), str(past)


def numpy__now() -> Any:
    """The clock in C, and a generator without a seed."""
    import numpy as np

    return str(np.datetime64("now")), np.random.default_rng().integers(1 << 60)


def numpy__files() -> Any:
    """numpy writes arrays in C, to a copy of the number of a file that Python has opened."""
    import numpy as np

    array = np.random.default_rng().random(1_000)
    np.save("array.npy", array)
    with open("raw", "w+b") as file:
        file.write(b"head")
        array.tofile(file)
        file.write(b"tail")
        file.seek(4)
        same = np.fromfile(file, dtype=float, count=1_000)
        rest = file.read()
    return (np.load("array.npy") == array).all(), (same == array).all(), rest, array[0]


def PIL__files() -> Any:  # noqa: N802 - it is named after its library
    """Pillow, too, with the number itself."""
    from PIL import Image

    Image.new("RGB", (200, 300), "red").save("red.bmp")
    with Image.open("red.bmp") as image:
        return image.size, image.getpixel((199, 299))


def bcrypt__salt() -> Any:
    """A salt from Rust."""
    import bcrypt

    return bcrypt.hashpw(b"secret", bcrypt.gensalt(4))


def cryptography__keys() -> Any:
    """Keys and signatures from an OpenSSL of its own."""
    from cryptography.fernet import Fernet
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    signed = ec.generate_private_key(ec.SECP256R1()).sign(b"text", ec.ECDSA(hashes.SHA256()))
    raw = ed25519.Ed25519PrivateKey.generate().private_bytes_raw()
    return raw, signed, Fernet(Fernet.generate_key()).encrypt(b"text")


def uuid_utils__all_versions() -> Any:
    """A generator that Rust seeds once in a process."""
    import uuid_utils

    return [str(make()) for make in (uuid_utils.uuid4, uuid_utils.uuid7, uuid_utils.uuid6)]


def orjson__dumps() -> Any:
    """Rust without questions."""
    import orjson

    return orjson.dumps({"now": datetime.datetime.now(datetime.UTC), "set": [1, 2.5, None]})


def ujson__dumps() -> Any:
    """C without questions."""
    import ujson

    return ujson.dumps({"a": [1, 2.5, None]})


def msgspec__encode() -> Any:
    """C without questions."""
    import msgspec

    return msgspec.json.encode({"now": datetime.datetime.now(datetime.UTC)})


def xxhash__digest() -> Any:
    """C without questions."""
    import xxhash

    return xxhash.xxh3_64_hexdigest(b"text")


def blake3__digest() -> Any:
    """Rust without questions."""
    import blake3

    return blake3.blake3(b"text" * 1_000).hexdigest()


def argon2__hash() -> Any:
    """A salt from Python, a hash from C."""
    import argon2

    return argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash("secret")


def nacl__box() -> Any:
    """Keys from libsodium."""
    import nacl.public
    import nacl.utils

    return bytes(nacl.public.PrivateKey.generate()), nacl.utils.random(16)


def rapidfuzz__ratio() -> Any:
    """C++ without questions."""
    import rapidfuzz.fuzz
    import rapidfuzz.process

    return rapidfuzz.process.extract("ab", ["abc", "b", "xy"], scorer=rapidfuzz.fuzz.ratio)


def lxml__etree() -> Any:
    """libxml2, which reads from memory."""
    import lxml.etree

    tree = lxml.etree.parse(io.BytesIO(b"<a><b>text</b></a>"))
    return lxml.etree.tostring(tree), tree.xpath("string(//b)")


def lxml__file() -> Any:
    """A file of the host that C opens by its path."""
    from lxml import etree

    with open("page.xml", "w") as file:
        file.write("<a><b/></a>")
    return [each.tag for each in etree.parse("page.xml").iter()]


def zstandard__compress() -> Any:
    """C without questions."""
    import zstandard

    return zstandard.ZstdCompressor().compress(b"text" * 100)


def polars__series() -> Any:
    """What polars does without threads."""
    import polars as pl

    return (pl.Series([1, 2]) * 2).to_list(), pl.Series([1, 2]).sum()


def polars__with_threads_from_before() -> Any:
    """What the error proposes: the library's threads are there when the run begins (`BEFORE`)."""
    return polars__frame()


def duckdb__without_threads() -> Any:
    """What the error proposes: a database in memory that starts no threads."""
    import duckdb

    database = duckdb.connect(config={"threads": 1, "async_threads": 0})
    return database.execute("select current_timestamp::varchar, random(), uuid()").fetchall()


def pyarrow__compute() -> Any:
    """C++ with an allocator of its own."""
    import pyarrow as pa
    import pyarrow.compute

    return pa.compute.sum(pa.array([1, 2, 3])).as_py()


def tokenizers__encode() -> Any:
    """Rust that would use threads for more."""
    import tokenizers
    import tokenizers.models

    model = tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a")
    return tokenizers.Tokenizer(model).encode("b").ids


# --- loud --------------------------------------------------------------------------------------


def grpc__call() -> Any:
    """Threads and sockets in C++."""
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{PORT}") as channel:
        try:
            return channel.unary_unary("/a/b")(b"x", timeout=1)
        except grpc.RpcError:
            return "swallowed"


def grpc__aio() -> Any:
    """It blocks in C while its channel is made, and does not survive that it is ended there."""
    import grpc.aio

    async def call() -> Any:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{PORT}")
        return await asyncio.wait_for(channel.unary_unary("/a/b")(b"x", timeout=1), 3)

    return asyncio.run(call())


def zmq__send() -> Any:
    """Threads and sockets in C++."""
    import zmq

    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.connect(f"tcp://127.0.0.1:{PORT}")
    socket.send(b"hello")
    socket.close()
    context.term()
    return "sent"


def httpr__get() -> Any:
    """A client in Rust."""
    import httpr

    try:
        return str(httpr.Client(timeout=2).get(f"http://127.0.0.1:{PORT}/"))
    except Exception:
        return "swallowed"


def primp__get() -> Any:
    """A client in Rust."""
    import primp

    try:
        return str(primp.Client(timeout=2).get(f"http://127.0.0.1:{PORT}/"))
    except Exception:
        return "swallowed"


def rnet__get() -> Any:
    """A client in Rust."""
    import rnet

    try:
        return str(rnet.BlockingClient().get(f"http://127.0.0.1:{PORT}/"))
    except Exception:
        return "swallowed"


def curl_cffi__get() -> Any:
    """libcurl by cffi."""
    import curl_cffi

    try:
        return str(curl_cffi.get(f"http://127.0.0.1:{PORT}/", timeout=2))
    except Exception:
        return "swallowed"


def pycurl__get() -> Any:
    """libcurl by C."""
    import pycurl

    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, f"http://127.0.0.1:{PORT}/")
    try:
        curl.perform()
    except pycurl.error:
        return "swallowed"
    return "done"


def confluent_kafka__produce() -> Any:
    """librdkafka, which uses C's own threads."""
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{PORT}"})
    producer.produce("topic", b"x")
    return producer.flush(0.5)


def duckdb__file() -> Any:
    """A database that writes to a file."""
    import duckdb

    try:
        duckdb.connect("never_written.duckdb")
    except duckdb.Error:
        return "swallowed"
    return "opened"


def polars__frame() -> Any:
    """Work on a pool of threads."""
    import polars as pl

    frame = pl.DataFrame({"a": [1, 2, 1], "b": [1, 2, 3]})
    return frame.group_by("a").agg(pl.col("b").sum()).sort("a").rows()


def ctypes__connect() -> Any:
    """A call past all libraries."""
    import ctypes

    libc = ctypes.CDLL(None)
    return libc.socket(2, 1, 0)


ANSWERED: tuple[Program, ...] = (
    pydantic_core__now, numpy__now, numpy__files, PIL__files, bcrypt__salt, cryptography__keys,
    uuid_utils__all_versions, orjson__dumps, ujson__dumps, msgspec__encode, xxhash__digest,
    blake3__digest, argon2__hash, nacl__box, rapidfuzz__ratio, lxml__etree, lxml__file,
    zstandard__compress,
    polars__series, polars__with_threads_from_before, pyarrow__compute, tokenizers__encode,
    duckdb__without_threads,
)  # fmt: skip
LOUD: tuple[Program, ...] = (
    grpc__call, zmq__send, httpr__get, primp__get, rnet__get, curl_cffi__get, pycurl__get,
    confluent_kafka__produce, duckdb__file, polars__frame, ctypes__connect,
)  # fmt: skip
BEFORE: dict[str, Program] = {"polars__with_threads_from_before": polars__frame}
"""What is called once before the first run."""
FATAL: tuple[Program, ...] = (grpc__aio,)
"""They say it and end the process."""
