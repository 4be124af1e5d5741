"""One session: a client, the server's process that works for it, and what is to be done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from foretold.services.postgres.protocol import IDLE, Group
from foretold.services.postgres.scrub import FIRST_PID
from foretold.services.postgres.statements import Statements

if TYPE_CHECKING:
    from foretold.services.postgres.backend import Answer, Backend
    from foretold.services.postgres.client import Client
    from foretold.tape import Stream
    from foretold.world.net.wire import Timer

QUIET, DUE, BLOCKED, SLEEPING, OVER = "quiet", "due", "blocked", "sleeping", "over"
"""What a session is doing: nothing; a group will be executed; it waits for a lock; it sleeps in the
server (`pg_sleep`); it has ended."""
SIMPLE, EXTENDED = "simple", "extended"


class Session:
    """What the server knows about one client."""

    def __init__(self, number: int, client: Client, host: str, choices: Stream) -> None:
        self.number = number
        self.client = client
        self.host = host
        """Where the client is."""
        self.choices = choices
        self.backend: Backend | None = None
        self.statements = Statements()
        self.queue: deque[Group] = deque()
        self.doing = QUIET
        self.due: Timer | None = None
        """When the next thing happens that this session waits for."""
        self.alarm: Timer | None = None
        """When a timer is due that the server has set for this session."""
        self.group: Group | None = None
        """What it is working on."""
        self.executes: list[str] = []
        """The SQL of that."""
        self.expected: Answer | None = None
        """How far the answer to it has come."""
        self.answer: list[bytes] = []
        """What has been answered to it so far."""
        self.resuming = False
        """Its lock is free; it will go on at an instant that was chosen."""
        self.on_wait: Callable[[], object] | None = None
        """Told when it has to wait for a lock."""
        self.transaction: list[str] = []
        """The statements of the transaction that is open."""
        self.transactions = 0
        self.leaving = False
        """The client is gone; when the statement is over, so is the session."""
        self.copying: str | None = None
        """Whether the server waits for the data of a COPY, and which sort of query asked for it."""
        self.skipping = False
        """A fault of ours has failed a message: all until Sync is skipped, as the server does."""
        self.listens = False
        """It has said LISTEN: it may be told something at any time."""
        self.read_only = False
        """It began on a server that was read-only."""
        self.drop_after = False
        """The connection is lost before the answer to this group gets through."""

    @property
    def pid(self) -> int:
        """The process as clients see it."""
        return FIRST_PID + self.number

    @property
    def key(self) -> bytes:
        return (7 + self.number).to_bytes(4, "big")

    @property
    def name(self) -> str:
        return f"session {self.number}"

    @property
    def state(self) -> bytes:
        """Whether a transaction is open, or has failed."""
        return IDLE if self.backend is None else self.backend.state
