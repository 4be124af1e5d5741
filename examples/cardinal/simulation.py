"""Both games on the kit, for the command line.

foretold explore examples.cardinal.simulation:Adventure
foretold explore examples.cardinal.simulation:Market --plant
"""

from examples.cardinal.games import adventure, market
from examples.cardinal.testing import machine_of

Adventure = machine_of(adventure.setup)
Market = machine_of(market.setup)
for _each in (Adventure, Market):
    _each.__module__ = __name__
