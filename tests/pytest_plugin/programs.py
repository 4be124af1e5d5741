"""Small test files as a user would write them; the tests here let pytest run them.

Where it does not matter, failures are not replayed in a fresh process (`confirm=False`): that takes
as long as everything else together. `test_fresh_process.py` is about that part.
"""

from __future__ import annotations

import foretold

# pytester forgets whatever its pytest imported: without this, foretold would be loaded each time.
LOADED = foretold

LOST_UPDATE = """
import asyncio
import foretold

BALANCE = "balance"

async def withdraw(bank, amount):
    seen = bank[BALANCE]
    await asyncio.sleep(0)
    bank[BALANCE] = seen - amount

@foretold.simulate(runs=20{settings})
async def test_no_money_is_lost():
    bank = {{BALANCE: 100}}
    await foretold.together(withdraw(bank, 5), withdraw(bank, 7))
    left = bank[BALANCE]
    assert left == 88
"""

FIXED = """
import asyncio
import foretold

@foretold.simulate(runs=20, confirm=False)
async def test_no_money_is_lost():
    await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
"""

HOLDS = """
import asyncio
import foretold

@foretold.simulate{settings}
async def test_holds():
    await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
"""


def lost_update(settings: str = ", confirm=False") -> str:
    """Two withdrawals that read before either writes: fails in stock order already."""
    return LOST_UPDATE.format(settings=settings)


def holds(settings: str = "") -> str:
    """A test with something to choose, and nothing wrong."""
    return HOLDS.format(settings=settings)
