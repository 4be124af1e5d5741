"""User accounts: FastAPI and asyncpg. A username belongs to one user; the table says so."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

SCHEMA = """
create table account (
    id int generated always as identity primary key,
    username text not null unique,
    password text not null
);
"""


class NewUser(BaseModel):
    username: str
    password: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1, max_size=3) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/users", status_code=201)
async def create_user(new: NewUser) -> dict[str, str]:
    insert = "insert into account (username, password) values ($1, $2)"
    try:
        await app.state.pool.execute(insert, new.username, new.password)
    except asyncpg.UniqueViolationError:
        raise HTTPException(409, "username_exists") from None
    except asyncpg.QueryCanceledError:
        raise HTTPException(503, "please try again") from None
    return {"username": new.username}
