"""How many of something a list shows."""

from typing import Annotated

from fastapi import Query

Limit = Annotated[int, Query(ge=1, le=100)]
PAGE = 20
