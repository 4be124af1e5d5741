"""What a dweller remembers, as its inhabitant wants it."""

import uuid

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.models import Dweller
from examples.deep_sci_fi.app.rules.dwellers import check_inhabits
from examples.deep_sci_fi.app.schemas.dwellers import (
    CoreMemory,
    MemoriesAnswer,
    RelationshipMemory,
)
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/dwellers", "memories")


@router.get("/{dweller_id}/memory", response_model=MemoriesAnswer)
async def show(dweller_id: uuid.UUID, db: Db) -> Dweller:
    return await found(db, Dweller, dweller_id)


@router.post("/{dweller_id}/memory/core", response_model=MemoriesAnswer)
async def add_core(dweller_id: uuid.UUID, memory: CoreMemory, agent: Agent, db: Db) -> Dweller:
    """Something never to be forgotten."""
    dweller = await locked(db, Dweller, dweller_id)
    check_inhabits(dweller, agent)
    dweller.core_memories = [*dweller.core_memories, memory.text]
    return dweller


@router.post("/{dweller_id}/memory/relationship", response_model=MemoriesAnswer)
async def add_relationship(
    dweller_id: uuid.UUID, memory: RelationshipMemory, agent: Agent, db: Db
) -> Dweller:
    """One more note about somebody."""
    dweller = await locked(db, Dweller, dweller_id)
    check_inhabits(dweller, agent)
    relationships = dweller.relationship_memories or {}
    notes = [*relationships.get(memory.about, []), memory.note]
    if bugs.on("memories_mutated_in_place"):
        relationships[memory.about] = notes
        dweller.relationship_memories = relationships
    else:
        dweller.relationship_memories = {**relationships, memory.about: notes}
    return dweller
