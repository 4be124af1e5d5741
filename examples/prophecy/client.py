"""The client that people use: it shows the users that it knows of, and an error.

`BUGS` are mistakes that such clients have; each is off unless somebody plants it.
"""

import httpx

import foretold

BUGS = {
    "stored_on_timeout": "a user is shown although nobody knows whether it was created",
    "doubling_retry": "a request that timed out is sent again, and the answer is shown as it is",
    "lost_error": "a timeout is not shown at all",
}


class Client:
    """What the person at the screen sees."""

    def __init__(self, web: httpx.AsyncClient) -> None:
        self.web = web
        self.users: list[str] = []
        self.error: str | None = None
        """What the domain says: the name is taken."""
        self.system_error: str | None = None
        """What the system says: nobody knows what became of the request."""

    async def create_user(self, username: str, password: str) -> None:
        self.error = self.system_error = None
        try:
            answer = await self._post(username, password)
        except httpx.TransportError:
            if foretold.mutant("stored_on_timeout"):
                self.users.append(username)
            if not foretold.mutant("lost_error"):
                self.system_error = "timeout"
            return
        if answer.status_code == 409:
            self.error = "username_exists"
        elif answer.status_code == 503:
            self.system_error = "busy"
        else:
            self.users.append(username)

    async def _post(self, username: str, password: str) -> httpx.Response:
        body = {"username": username, "password": password}
        try:
            return await self.web.post("/users", json=body)
        except httpx.TransportError:
            if not foretold.mutant("doubling_retry"):
                raise
        return await self.web.post("/users", json=body)
