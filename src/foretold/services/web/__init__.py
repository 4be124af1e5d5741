"""`world.web`: an ASGI application as a host of the world, and HTTP clients for its actors."""
