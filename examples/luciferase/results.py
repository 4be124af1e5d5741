"""How a migration may end, and how long its parts may take."""

from dataclasses import dataclass
from enum import Enum


class Result(Enum):
    """The outcome of one call of `migrate`."""

    SUCCESS = "SUCCESS"
    ALREADY_MIGRATING = "ALREADY_MIGRATING"
    ALREADY_APPLIED = "ALREADY_APPLIED"
    UNREACHABLE = "UNREACHABLE"
    TIMEOUT = "TIMEOUT"
    PREPARE_FAILED = "PREPARE_FAILED"
    COMMIT_FAILED = "COMMIT_FAILED"
    COMMIT_TIMEOUT = "COMMIT_TIMEOUT"
    ABORT_TIMEOUT = "ABORT_TIMEOUT"
    ROLLBACK_FAILED = "ROLLBACK_FAILED"


@dataclass(frozen=True, slots=True)
class Migrated:
    """What `migrate` returns."""

    result: Result
    reason: str = ""
    is_rolled_back: bool = False
    """The entity had left its source, and is back."""

    @property
    def is_success(self) -> bool:
        return self.result is Result.SUCCESS

    @property
    def is_idempotent(self) -> bool:
        """The token was used before: nothing was done."""
        return self.result is Result.ALREADY_APPLIED


@dataclass(frozen=True, slots=True)
class Profile:
    """Limits of a migration, in milliseconds."""

    phase_ms: float = 100
    total_ms: float = 300
    lock_ms: float = 50
    retry_ms: float = 5
    retries: int = 10

    def __post_init__(self) -> None:
        if self.total_ms < 3 * self.phase_ms:
            raise ValueError(f"three phases of {self.phase_ms} ms exceed {self.total_ms} ms")
        if not self.lock_ms < self.phase_ms:
            raise ValueError(f"a lock ({self.lock_ms} ms) takes less than a phase")


DEFAULT = Profile()
PATIENT = Profile(500, 1500, 250, 10, 25)
HASTY = Profile(50, 150, 25, 2.5, 10)
