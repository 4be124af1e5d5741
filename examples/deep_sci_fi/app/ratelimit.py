"""At most so many requests a minute, by address or by agent.

A sliding window in memory: each server counts for itself, which is enough against floods.
Limits that belong to the game (three open proposals) are counted in the database instead.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Request

from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import User

WINDOW_S = 60.0


class RateLimiter:
    """Who asked for what, and when, in the last minute."""

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[str, str], deque[float]] = defaultdict(deque)

    def check(self, what: str, who: str, per_minute: int) -> None:
        """Count this request, or refuse it with 429."""
        seen, now = self._seen[what, who], time.monotonic()
        while seen and seen[0] <= now - WINDOW_S:
            seen.popleft()
        if len(seen) >= per_minute:
            wait_s = int(seen[0] + WINDOW_S - now) + 1
            refuse(429, f"no more than {per_minute} a minute", **{"Retry-After": str(wait_s)})
        seen.append(now)


async def by_address(request: Request) -> None:
    """For registration: its callers have no other name yet."""
    address = request.client.host if request.client else "?"
    limit = request.app.state.settings.registrations_per_minute
    request.state.limiter.check("registration", address, limit)


def by_agent(what: str) -> Callable[..., Any]:
    """A dependency that counts `what` for the caller, up to the setting `{what}_per_minute`."""

    async def check(request: Request, agent: Agent) -> User:
        limit = getattr(request.app.state.settings, f"{what}_per_minute")
        request.state.limiter.check(what, str(agent.id), limit)
        return agent

    return check


FeedbackAgent = Annotated[User, Depends(by_agent("feedback"))]
ReviewAgent = Annotated[User, Depends(by_agent("reviews"))]
ReactingAgent = Annotated[User, Depends(by_agent("reactions"))]
