"""Eight bugs that shops have had, as switches. All of them are off unless somebody plants one."""

PLANTED: set[str] = set()

BUGS = {
    "oversell": "the stock is read, and written later, without a lock",
    "double_charge": "a purchase that is sent again is a new purchase",
    "check_then_insert": "an address is looked up first, and then registered",
    "lost_update": "the counter of visits is read, and written later",
    "skipped_state": "the state of an order is read without a lock",
    "lost_mail": "the confirmation is part of the request, which ends with the connection",
    "limiter_bypassed": "the limiter believes what a client says about its address",
    "shared_key": "an idempotency key is looked up without asking whose it is",
}


def planted(bug: str) -> bool:
    """Whether the application has this bug now."""
    return bug in PLANTED


def plant(*bugs: str) -> None:
    """From now on it has these bugs and no others."""
    unknown = set(bugs) - set(BUGS)
    if unknown:
        raise ValueError(f"there is no bug {sorted(unknown)}; there are {', '.join(BUGS)}")
    PLANTED.clear()
    PLANTED.update(bugs)
