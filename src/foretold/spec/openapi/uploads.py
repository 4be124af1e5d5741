"""Files that a request brings along: as parts of a form, or as the whole body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from foretold.spec.openapi.document import Schema

SIZE_MAX = 64
MEDIA = {"text/*": "text/plain", "image/*": "image/png", "audio/*": "audio/wav",
         "video/*": "video/mp4", "application/*": "application/octet-stream"}  # fmt: skip
"""What a kind of media stands for where one has to be named."""
_BINARY = re.compile(r"binary|(application|image|audio|video)/(?!json).+")


class Upload(bytes):
    """A file: its content, and what the client calls it."""

    filename: str = "file.bin"

    def __repr__(self) -> str:
        return f"Upload({bytes(self)!r}, {self.filename!r})"


def is_file(schema: Schema) -> bool:
    """Whether a text is really a file: `format: binary` of 3.0, `contentMediaType` of 3.1."""
    return any(
        _BINARY.fullmatch(str(schema.get(key, ""))) for key in ("format", "contentMediaType")
    )


def _upload(drawn: tuple[bytes, str]) -> Upload:
    made = Upload(drawn[0])
    made.filename = drawn[1]
    return made


UPLOADS: st.SearchStrategy[Any] = st.tuples(
    st.binary(min_size=1, max_size=SIZE_MAX) | st.just(b""),
    st.from_regex(r"[a-z]{1,8}\.(bin|txt|png|csv)", fullmatch=True),
).map(_upload)
"""Files; mostly not empty, since an empty one is what many refuse."""


def bodies_of(media: str, schema: Any) -> st.SearchStrategy[Any] | None:
    """Bodies that are neither JSON nor a form; None for a text that its schema describes."""
    described = isinstance(schema, Mapping) and schema.get("type") == "string"
    if media.startswith("text/") and described and not is_file(dict(schema)):
        return None
    return UPLOADS if not media.startswith("text/") else st.text(max_size=SIZE_MAX)
