"""A bank with a bug that unit tests do not show: two deposits at once, and one is lost.

    foretold explore examples/lost_update.py:transfer

Stock asyncio happens to run these tasks in an order in which all is well. One more await, a cache
miss or a slower disk, and it is not.
"""

import asyncio

import foretold


class Account:
    """An account kept in a store that answers after a while."""

    def __init__(self) -> None:
        self.balance = 0

    async def read(self) -> int:
        await asyncio.sleep(0)  # the store is asked
        return self.balance

    async def write(self, balance: int) -> None:
        await asyncio.sleep(0)  # the store is told
        self.balance = balance

    async def deposit(self, amount: int) -> None:
        balance = await self.read()
        await self.write(balance + amount)


async def salary(account: Account) -> None:
    await account.deposit(100)


async def refund(account: Account) -> None:
    for _ in range(4):  # the shop takes its time
        await asyncio.sleep(0)
    await account.deposit(30)


async def transfer() -> None:
    account = Account()
    await foretold.together(salary(account), refund(account))
    foretold.always(account.balance == 130, "no deposit is lost", balance=account.balance)
