"""Texts of the formats that schemas name: those of OpenAPI, of JSON Schema, and Pydantic's own."""

from __future__ import annotations

import base64
import datetime
from typing import Any

from hypothesis import strategies as st

from foretold.spec.annotations import EMAILS, URLS
from foretold.spec.limits import Limits
from foretold.spec.openapi.document import Schema
from foretold.spec.patterns import TEXT, matching

Strategy = st.SearchStrategy[Any]

CENTS_MAX = 10**6
"""A decimal number whose digits nobody has counted: such that money is, with two places."""


def texts_of(schema: Schema) -> Strategy:
    """Texts of a format, of a pattern, or of any allowed length. Raises `Impossible`."""
    made = FORMATS.get(schema.get("format", ""))
    if made is not None:
        return made
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    if "pattern" in schema:
        return matching(schema["pattern"], low, high)
    return st.text(TEXT, min_size=low, max_size=high)


def decimal_numbers(limits: Limits) -> Strategy:
    """Decimal numbers, as numbers or as texts."""
    least, most = limits.whole(0.01)
    high = max(CENTS_MAX, least or 0) if most is None else most
    low = min(-CENTS_MAX, high) if least is None else least
    # Few places are refused least often.
    whole = st.integers(-(-low // 100), high // 100) if -(-low // 100) <= high // 100 else None
    cents = st.integers(low, high).map(lambda n: n / 100)
    found = cents if whole is None else whole | cents
    return found | found.map(str)


def _network(address: Any) -> str:
    return f"{address}/{address.max_prefixlen}"


def _encoded(encode: Any) -> Strategy:
    return st.binary(max_size=32).map(lambda raw: encode(raw).decode())


_UTC = st.just(datetime.UTC)
_PATHS = st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}", fullmatch=True)
_IPV4, _IPV6 = st.ip_addresses(v=4), st.ip_addresses(v=6)
FORMATS: dict[str, Strategy] = {
    "date-time": st.datetimes(timezones=_UTC, min_value=datetime.datetime(1900, 1, 1)).map(
        lambda instant: instant.isoformat().replace("+00:00", "Z")
    ),
    "date": st.dates(min_value=datetime.date(1900, 1, 1)).map(str),
    "time": st.times(timezones=_UTC).map(lambda time: time.isoformat().replace("+00:00", "Z")),
    "duration": st.integers(0, 10**6).map(lambda seconds: f"PT{seconds}S"),
    "uuid": st.uuids().map(str),
    **{f"uuid{n}": st.uuids(version=n).map(str) for n in (1, 2, 3, 4, 5)},
    "email": EMAILS,
    "idn-email": EMAILS,
    "name-email": EMAILS,
    "uri": URLS,
    "url": URLS,
    "iri": URLS,
    "uri-reference": URLS,
    "hostname": st.from_regex(r"[a-z]{1,8}\.(com|org)", fullmatch=True),
    "ipv4": _IPV4.map(str),
    "ipv6": _IPV6.map(str),
    "ipv4network": _IPV4.map(_network),
    "ipv6network": _IPV6.map(_network),
    "ipv4interface": _IPV4.map(_network),
    "ipv6interface": _IPV6.map(_network),
    "ipvanyaddress": (_IPV4 | _IPV6).map(str),
    "ipvanyinterface": (_IPV4 | _IPV6).map(_network),
    "ipvanynetwork": (_IPV4 | _IPV6).map(_network),
    "path": _PATHS,
    "file-path": _PATHS,
    "directory-path": _PATHS,
    "byte": _encoded(base64.b64encode),
    "base64": _encoded(base64.b64encode),
    "base64url": _encoded(base64.urlsafe_b64encode),
    "json-string": (st.none() | st.booleans() | st.integers(-99, 99)).map(
        lambda value: "null" if value is None else str(value).lower()
    ),
    "decimal": st.integers(-CENTS_MAX, CENTS_MAX).map(lambda n: f"{n / 100:.2f}"),
}
