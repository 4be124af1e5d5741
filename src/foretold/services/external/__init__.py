"""`world.external("api.openai.com")`: a host outside of the program's own system, with a script.

certificate.py  an authority for the simulation, and certificates of hosts, made without a library
trust.py        programs trust that authority for scripted hosts, whatever their SSLContext is
script.py       which answer a call gets, and how it is written down
injection.py    which failure strikes which call
connection.py   one connection: TCP, TLS, HTTP/1.1
server.py       the host itself
"""
