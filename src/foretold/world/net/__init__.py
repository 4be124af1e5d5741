"""The network between the hosts: wire, paths, TCP, UDP, unix sockets, names.

What is modelled is what a program can see of Linux through its sockets: bytes arrive in segments
that need not match writes, a handshake takes a round trip, buffers are finite and push back, a
dead host is silent. asyncio's own transports run on top of it unmodified.
"""
