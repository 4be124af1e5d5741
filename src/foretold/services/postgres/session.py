"""One session: a client, the server's process that works for it, and what is to be done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from foretold.services.postgres.protocol import IDLE, Group
from foretold.services.postgres.scrub import FIRST_PID
from foretold.services.postgres.statements import Statements
from foretold.trace import Place
from foretold.trace.events import Who

if TYPE_CHECKING:
    from foretold.services.postgres.backend import Backend, ExpectedAnswer
    from foretold.services.postgres.client import Client
    from foretold.tape import Stream
    from foretold.world.net.wire import Timer
    from foretold.world.omens import Bound

LOGIN, QUIET, DUE, BLOCKED = "login", "quiet", "due", "blocked"
SLEEPING, SENDING, OVER = "sleeping", "sending", "over"
"""What a session is doing: it is asked for its password; nothing; a group will be executed; it
waits for a lock; it sleeps in the server (`pg_sleep`); its client does not take the answer; it has
ended."""
SIMPLE, EXTENDED, COPIED, AHEAD = "simple", "extended", "copied", "ahead"
"""How far a COPY is: the server waits for its data, and a simple query or messages of the extended
protocol asked for it; the data is complete, but what the server says to it comes with the next
Sync; the data came before the server could ask for it."""


class Untold(NamedTuple):
    """Something that the server has said unasked, and when its client gets it."""

    when_ns: int
    timer: Timer
    said: bytes


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
        self.waits_ns: dict[int, int] = {}
        """Which of its choices said how long groups took, since the last that executed something,
        and how long that was."""
        self.due: Timer | None = None
        """When the next thing happens that this session waits for."""
        self.alarm: Timer | None = None
        """When a timer is due that the server has set for this session."""
        self.group: Group | None = None
        """What it is working on."""
        self.executes: list[str] = []
        """The SQL of that."""
        self.expected: ExpectedAnswer | None = None
        """How far the answer to it has come."""
        self.answer: list[bytes] = []
        """What has been answered to it so far."""
        self.resuming = False
        """Its lock is free; it will go on at an instant that was chosen."""
        self.asks_password = False
        self.on_login: Callable[[bytes], object] | None = None
        """What it says goes there until it may begin."""
        self.on_wait: Callable[[], object] | None = None
        """Told when it has to wait for a lock."""
        self.transaction: list[str] = []
        """The statements of the transaction that is open."""
        self.since_ready: list[str] = []
        """What was done since the server was last ready for a query, as it says."""
        self.failed_since_ready = False
        self.was_open = False
        """Whether a transaction was open when the server was last ready for a query."""
        self.sent_by: Who | None = None
        """For the story: the task that has sent the last message."""
        self.asked_by: Who | None = None
        """And the request that it was sent for, if it was for one."""
        self.bound: Bound | None = None
        """What was foretold for the call whose task has sent that."""
        self.sent_at: Place | None = None
        """For the story: the user's line that has sent the last message."""
        self.sent_from: tuple[Place, ...] = ()
        """And the lines from which that was reached."""
        self.transactions = 0
        self.leaving = False
        """The client is gone; when the statement is over, so is the session."""
        self.copying: str | None = None
        """How far a COPY is, from the client to the server."""
        self.skipping = False
        """A fault of ours has failed a message: all until Sync is skipped, as the server does."""
        self.listens = False
        """It has said LISTEN: it may be told something at any time."""
        self.untold: deque[Untold] = deque()
        """What the server has said unasked and its client has not got yet."""
        self.database = ""
        """Which one it is connected to."""
        self.read_only = False
        """It began on a server that was read-only."""
        self.drop_after = False
        """The connection is lost before the answer to this group gets through."""

    @property
    def is_in_copy(self) -> bool:
        """Whether the server waits for data, and looks at no other message."""
        return self.copying in (SIMPLE, EXTENDED)

    @property
    def is_skipping(self) -> bool:
        """Whether a message has failed, and the server looks at none up to Sync."""
        return self.skipping or (self.backend is not None and self.backend.skipping)

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
