"""Two deposits into one account at the same time: sometimes one of them is lost."""

import asyncio
import random

import foretold


class Account:
    """An account in a store that answers within one to four milliseconds."""

    def __init__(self) -> None:
        self.balance = 0

    async def read(self) -> int:
        await asyncio.sleep(random.uniform(0.001, 0.004))
        return self.balance

    async def write(self, balance: int) -> None:
        await asyncio.sleep(random.uniform(0.001, 0.004))
        self.balance = balance

    async def deposit(self, amount: int) -> None:
        balance = await self.read()
        await self.write(balance + amount)


async def salary(account: Account) -> None:
    await account.deposit(100)


async def refund(account: Account) -> None:
    await asyncio.sleep(0.005)  # the refund starts 5 ms later
    await account.deposit(30)


async def transfer() -> None:
    account = Account()
    await foretold.together(salary(account), refund(account))
    assert account.balance == 130, f"the balance is {account.balance}"
