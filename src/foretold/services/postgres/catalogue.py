"""Which tables there are, and by which columns their rows are told apart: the server knows.

A story compares rows by their keys. It asks when the run is over, for tables that the program has
made on its way.
"""

from __future__ import annotations

import json

from foretold.services.postgres.side import SideConnection
from foretold.trace.events import Table

_TABLES = """
select c.oid, n.nspname, c.relname,
  (select json_object_agg(a.attnum, a.attname)::text from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
  (select json_agg(i.indkey::int2[])::text from pg_index i
    where i.indrelid = c.oid and i.indisunique and i.indpred is null and i.indexprs is null)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
  and n.nspname not like 'pg\\_%'
"""


def tables(side: SideConnection) -> dict[int, Table]:
    """All of the user's own, by their numbers."""
    found = {}
    for number, schema, name, columns, keys in side.simple(_TABLES):
        names = {int(n): each for n, each in json.loads(columns or "{}").items()}
        unique = tuple(
            tuple(names[n] for n in key if n in names) for key in json.loads(keys or "[]")
        )
        found[int(number or 0)] = Table(schema or "", name or "", names, unique)
    return found
