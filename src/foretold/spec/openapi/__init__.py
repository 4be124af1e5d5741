"""`foretold.openapi(app)`: a machine from the schema of a web API, a rule for each operation.

document.py    the schema as operations with parameters, bodies, responses; references followed
values.py      strategies for JSON schemas
formats.py     texts of the formats that schemas name
conformity.py  does an answer match its JSON schema?
resources.py   which fields of answers feed which parameters of later requests
flows.py       whose ids are taken for a request
eagerness.py   which operations a run is eager for
doubles.py     the same request twice at the same moment
uploads.py     files that a request brings along
requests.py    from drawn arguments to an HTTP request, which can be sent again
properties.py  what every API has to keep: no 5xx, answers as documented, duplicates, access
pages.py       which pages are read to see whether a request has changed something
rows.py        what a request changes in the databases of the world
machine.py     the machine, and the hooks by which it is made one's own
"""
