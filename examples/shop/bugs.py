"""Eight bugs that shops have had, as mutants: off, unless somebody plants one.

    foretold explore examples.shop.machine:Shop --plant

Production would not have this file. Here it shows that the machine would notice each of them.
"""

import foretold

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
    assert bug in BUGS, bug
    return foretold.mutant(bug)
